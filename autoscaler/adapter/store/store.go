// Package store embeds a time series database, so that a small cluster needs no Prometheus server:
// Prometheus' own database and PromQL engine, within stated limits.
//
// The files follow a sample: scrape.go scrapes it from a target, store.go stores it and answers
// queries, limits.go limits the number of series, origin.go finds the targets of a query, resume.go
// handles restarts, window.go warns of queries that need more samples than there are, api.go and parameters.go serve Prometheus' clients. Package target defines the
// targets.
//
// Its limits: series in memory ([Options.MaxSeries]; 2.4 KB each, measured with seven labels and
// noisy samples; full chunks are unloaded within a minute), samples and time per query, concurrent
// queries, age and size of the data on disk. MaxBytes limits the blocks; the directory also has a
// write-ahead log of at most 45 minutes.
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

	"supercargo.dev/supercargo/internal/input"
	query "supercargo.dev/supercargo/internal/platform/promql"
)

// blockDuration is the duration of a block. The head is written to disk as a block when it covers
// one and a half times that. Prometheus uses two hours: at one sample per second that takes four
// times the memory.
const blockDuration = 30 * time.Minute

// minRetention is two blocks.
const minRetention = 2 * blockDuration

// mostAhead is how far a clock may have been ahead for the store to continue at once when it is set back: it takes samples
// that are older than its newest by as much. Otherwise it would take none for as long as the clock was ahead, and
// everything that decides by it would hold. The samples from the future remain; no query of the present reads them.
const mostAhead = 7 * 24 * time.Hour

// stripes is the size of the series hash table: small, because the number of series is limited.
const stripes = 1 << 10

// Options configure a store.
type Options struct {
	// Dir is the directory of the store. It is created if it does not exist; data of an earlier
	// store in it is kept. Only one store at a time may use it.
	Dir string
	// Retention is how long samples are kept, and MaxBytes is the maximum size of the blocks on
	// disk; 0 means no limit.
	Retention time.Duration
	MaxBytes  int64
	// MaxSeries is the maximum number of series in memory.
	MaxSeries int
	// Lookback is how long a sample stays current without a newer one. It does not matter for
	// targets that stop responding, whose series end at once.
	Lookback time.Duration
	// Timeout is the maximum duration of a query, MaxSamples is the maximum number of samples that
	// it holds in memory (16 bytes each), and MaxQueries is the maximum number of concurrent
	// queries; others wait.
	Timeout    time.Duration
	MaxSamples int
	MaxQueries int
	// Registerer registers the metrics of the store; nil for none.
	Registerer prometheus.Registerer
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	Log   logr.Logger
}

// Defaults returns limits for a cluster of some hundred nodes.
func Defaults() Options {
	return Options{
		Retention: 24 * time.Hour, MaxBytes: 512 << 20, MaxSeries: 50_000,
		Lookback: time.Minute, Timeout: 10 * time.Second, MaxSamples: 1_000_000, MaxQueries: 4,
	}
}

// Validate returns all errors in the options.
func (o *Options) Validate() error {
	var errs input.Faults
	errs.If(o.Dir == "", "the directory of the store is required")
	errs.If(o.Retention < minRetention, "the retention %v must be %v or more, which is two blocks", o.Retention, minRetention)
	errs.If(o.MaxBytes < 0, "the maximum size of %d bytes must be 0 or more", o.MaxBytes)
	errs.If(o.MaxSeries < 1, "the maximum number of series %d must be 1 or more", o.MaxSeries)
	errs.If(o.Lookback < time.Second, "the lookback %v must be 1s or more", o.Lookback)
	errs.If(o.Timeout <= 0, "the timeout %v of queries must be above 0", o.Timeout)
	errs.If(o.MaxSamples < 1, "the maximum number of samples of a query %d must be 1 or more", o.MaxSamples)
	errs.If(o.MaxQueries < 1, "the maximum number of concurrent queries %d must be 1 or more", o.MaxQueries)
	return errors.Join(errs...)
}

// Store stores samples and answers queries. It is safe for concurrent use.
type Store struct {
	db       *tsdb.DB
	engine   *promql.Engine
	parser   parser.Parser
	turns    chan struct{} // limits concurrent queries
	lookback time.Duration
	opened   time.Time
}

var _ query.Querier = (*Store)(nil)

// Open opens the store. The caller must close it.
//
// Samples of an earlier store in the directory remain available to queries of the past; they are
// not current, because their targets may be gone.
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
		db: db, parser: p, turns: make(chan struct{}, o.MaxQueries), lookback: o.Lookback, opened: o.Clock.Now(),
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
	d.OutOfOrderTimeWindow = mostAhead.Milliseconds()
	d.WALSegmentSize = 16 << 20
	d.WALCompression = compression.Snappy
	d.SeriesLifecycleCallback = limit
	return d
}

// Close closes the store. Running queries fail.
func (s *Store) Close() error {
	if err := errors.Join(s.engine.Close(), s.db.Close()); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// Series returns the number of series in memory.
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
				return nil, fmt.Errorf("%s is a histogram: query a quantile or the count of it", v.Metric)
			}
			samples = append(samples, query.Sample{Labels: v.Metric.Map(), Value: v.F, At: time.UnixMilli(v.T)})
		}
		return samples, nil
	default:
		return nil, fmt.Errorf("the result is a %s, must be an instant vector or a scalar", value.Type())
	}
}

// instant evaluates an expression at a time.
func (s *Store) instant(ctx context.Context, options promql.QueryOpts, expression string, at time.Time) (parser.Value, error) {
	return s.evaluate(ctx, func() (promql.Query, error) {
		return s.engine.NewInstantQuery(ctx, s.db, options, expression, at)
	})
}

// evaluate runs a query, after waiting for its turn.
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

// detach copies values that the engine reuses after their query is closed.
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

// Appender returns an appender. Samples of a series must be appended in the order of their
// timestamps.
func (s *Store) Appender(ctx context.Context) storage.AppenderV2 { return s.db.AppenderV2(ctx) }

// AppenderV2 implements [storage.AppendableV2].
func (s *Store) AppenderV2(ctx context.Context) storage.AppenderV2 { return s.db.AppenderV2(ctx) }

// Lookback returns how long a sample stays current without a newer one.
func (s *Store) Lookback() time.Duration { return s.lookback }

// everything matches all series.
func everything() *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")
}

// The range of all times, in milliseconds.
const (
	longAgo = math.MinInt64
	farOff  = math.MaxInt64
)
