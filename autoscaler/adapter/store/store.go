// Package store keeps series of samples in this program, so that a small cluster needs no
// Prometheus: a time series database and a PromQL engine, both Prometheus' own, within
// stated bounds.
//
// The files follow the way of a sample: scrape.go takes it from a target, store.go keeps it
// and answers queries, limits.go says what is not taken, resume.go begins again after a
// restart, api.go and parameters.go answer Prometheus' clients. Which targets there are,
// package target says.
//
// What bounds it: series in memory ([Options.MaxSeries]; 2.4 KB each were measured, with
// seven labels and noisy samples, and chunks that are full leave it within a minute), samples
// and time per query, queries at once, age and size of what is on disk. Beside the blocks,
// which MaxBytes bounds, the directory has the log of the last three quarters of an hour at
// most.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/autoscaler/adapter/query"
	"supercargo.dev/supercargo/internal/input"
)

// blockDuration is how much is in memory before it goes to disk as a block, which happens
// when half of it more has come. Prometheus takes two hours: at a sample per second that is
// four times the memory.
const blockDuration = 30 * time.Minute

// minRetention keeps two blocks.
const minRetention = 2 * blockDuration

// stripes is the size of the table of series: small, as their number is bounded.
const stripes = 1 << 10

// Options say where a store is and what bounds it.
type Options struct {
	// Dir is where it keeps its files. It is made if it is not there; what an earlier
	// store has left in it is still there. One store at a time may use it.
	Dir string
	// Retention is for how long samples are kept, and MaxBytes how much of them on disk, in
	// blocks; 0 is no bound.
	Retention time.Duration
	MaxBytes  int64
	// MaxSeries is how many series may be in memory.
	MaxSeries int
	// Lookback is for how long a sample is taken for current when no later one says
	// otherwise. Targets that do not answer are noticed at once, whatever this is.
	Lookback time.Duration
	// Timeout bounds a query, MaxSamples what it may hold in memory at once (16 bytes
	// each), and MaxQueries how many run at a time; others wait.
	Timeout    time.Duration
	MaxSamples int
	MaxQueries int
	// Registerer takes the store's own metrics; nil is for none.
	Registerer prometheus.Registerer
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
	// Log takes what is worth a line.
	Log logr.Logger
}

// Defaults returns the bounds for a cluster of some hundred nodes.
func Defaults() Options {
	return Options{
		Retention: 24 * time.Hour, MaxBytes: 512 << 20, MaxSeries: 50_000,
		Lookback: time.Minute, Timeout: 10 * time.Second, MaxSamples: 1_000_000, MaxQueries: 4,
	}
}

// Validate returns everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs input.Faults
	errs.If(o.Dir == "", "the directory of the store is not given")
	errs.If(o.Retention < minRetention, "the retention of %v is under %v, which is two blocks", o.Retention, minRetention)
	errs.If(o.MaxBytes < 0, "the size of %d bytes is negative", o.MaxBytes)
	errs.If(o.MaxSeries < 1, "a store of at most %d series keeps nothing", o.MaxSeries)
	errs.If(o.Lookback < time.Second, "a lookback of %v is under a second", o.Lookback)
	errs.If(o.Timeout <= 0, "a query within %v has no time", o.Timeout)
	errs.If(o.MaxSamples < 1, "a query of at most %d samples reads nothing", o.MaxSamples)
	errs.If(o.MaxQueries < 1, "at most %d queries at a time are none", o.MaxQueries)
	return errors.Join(errs...)
}

// Store keeps samples and answers queries. Its methods may be called from any goroutine.
type Store struct {
	db       *tsdb.DB
	engine   *promql.Engine
	parser   parser.Parser
	turns    chan struct{} // of queries
	lookback time.Duration
}

var _ query.Querier = (*Store)(nil)

// Open opens the store. Close it after use.
//
// What an earlier store in the directory had last is still found where a query asks for the
// past; it is not taken for current, since its target may be gone since.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	limit := newSeriesLimit(o.MaxSeries, o.Registerer)
	log := slog.New(logr.ToSlogHandler(o.Log.V(2).WithName("store")))
	db, err := tsdb.Open(o.Dir, log, o.Registerer, databaseOptions(o, limit), nil)
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", o.Dir, err)
	}
	if err := settle(db, o.Clock.Now(), o.Lookback); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store in %s: %w", o.Dir, err), db.Close())
	}
	limit.enforce(db.Head())
	p := parser.NewParser(parser.Options{})
	return &Store{
		db: db, parser: p, turns: make(chan struct{}, o.MaxQueries), lookback: o.Lookback,
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: log, Reg: o.Registerer, MaxSamples: o.MaxSamples, Timeout: o.Timeout, LookbackDelta: o.Lookback, Parser: p,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Second.Milliseconds() },
			EnableAtModifier:         true, EnableNegativeOffset: true,
		}),
	}, nil
}

func databaseOptions(o Options, limit *seriesLimit) *tsdb.Options {
	d := tsdb.DefaultOptions()
	d.RetentionDuration = o.Retention.Milliseconds()
	d.MaxBytes = o.MaxBytes
	d.MinBlockDuration = blockDuration.Milliseconds()
	d.MaxBlockDuration = max(blockDuration, o.Retention/10).Milliseconds()
	d.StripeSize = stripes
	d.WALSegmentSize = 16 << 20
	d.WALCompression = compression.Snappy
	d.SeriesLifecycleCallback = limit
	return d
}

// Close ends the store. Queries that run get an error.
func (s *Store) Close() error {
	if err := errors.Join(s.engine.Close(), s.db.Close()); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// Series is how many series are in memory.
func (s *Store) Series() int { return int(s.db.Head().NumSeries()) }

// Query answers a PromQL expression. See [query.Querier].
func (s *Store) Query(ctx context.Context, expression string, at time.Time) ([]query.Sample, error) {
	value, err := s.instant(ctx, nil, expression, at)
	if err != nil {
		return nil, fmt.Errorf("query %q of the embedded store: %w", expression, err)
	}
	samples, err := fromValue(value)
	if err != nil {
		return nil, fmt.Errorf("query %q of the embedded store: %w", expression, err)
	}
	return samples, nil
}

// fromValue returns the samples of an instant vector or a scalar.
func fromValue(value parser.Value) ([]query.Sample, error) {
	switch value := value.(type) {
	case promql.Scalar:
		return []query.Sample{{Labels: map[string]string{}, Value: value.V, At: time.UnixMilli(value.T)}}, nil
	case promql.Vector:
		samples := make([]query.Sample, 0, len(value))
		for _, v := range value {
			if v.H != nil {
				return nil, fmt.Errorf("%s is a histogram: take a quantile or a count of it", v.Metric)
			}
			samples = append(samples, query.Sample{Labels: v.Metric.Map(), Value: v.F, At: time.UnixMilli(v.T)})
		}
		return samples, nil
	default:
		return nil, fmt.Errorf("its answer is a %s: it must be an instant vector or a scalar", value.Type())
	}
}

// instant evaluates an expression at a moment.
func (s *Store) instant(ctx context.Context, options promql.QueryOpts, expression string, at time.Time) (parser.Value, error) {
	return s.evaluate(ctx, func() (promql.Query, error) {
		return s.engine.NewInstantQuery(ctx, s.db, options, expression, at)
	})
}

// evaluate runs a query when it is its turn.
func (s *Store) evaluate(ctx context.Context, ask func() (promql.Query, error)) (parser.Value, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other queries: %w", ctx.Err())
	}
	q, err := ask()
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	return detach(result.Value), nil
}

// detach copies what the engine takes back when its query is closed.
func detach(value parser.Value) parser.Value {
	switch value := value.(type) {
	case promql.Vector:
		return append(promql.Vector{}, value...)
	case promql.Matrix:
		matrix := make(promql.Matrix, len(value))
		for i, s := range value {
			s.Floats, s.Histograms = append([]promql.FPoint(nil), s.Floats...), append([]promql.HPoint(nil), s.Histograms...)
			matrix[i] = s
		}
		return matrix
	}
	return value
}

// Appender returns what adds samples to the store. Samples of one series come in the order
// of their time.
func (s *Store) Appender(ctx context.Context) storage.AppenderV2 { return s.db.AppenderV2(ctx) }

// AppenderV2 makes a store an [storage.AppendableV2].
func (s *Store) AppenderV2(ctx context.Context) storage.AppenderV2 { return s.db.AppenderV2(ctx) }

// Lookback is for how long a sample is taken for current.
func (s *Store) Lookback() time.Duration { return s.lookback }

// everything matches all series.
func everything() *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")
}

// always is the time between which everything lies, in milliseconds.
const (
	longAgo = math.MinInt64
	farOff  = math.MaxInt64
)
