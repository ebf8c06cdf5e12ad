package tasks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/internal/platform/poll"
)

// Asker returns the state of a queue, such as a [Source].
type Asker interface {
	Queue(ctx context.Context) (workqueue.Queue, error)
}

// Readings counts the queries of each manager by namespace, name, and whether it "answered" ("true"
// or "false"); see [Count].
type Readings struct{ *prometheus.CounterVec }

// Count creates the counter and registers it if the registry is not nil.
func Count(registry prometheus.Registerer) (Readings, error) {
	r := Readings{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "supercargo_adapter_workqueue_readings_total", Help: "Queries of Work Queue managers, by whether they answered.",
	}, []string{"namespace", "manager", "answered"})}
	if registry == nil {
		return r, nil
	}
	if err := registry.Register(r); err != nil {
		return Readings{}, fmt.Errorf("register metrics: %w", err)
	}
	return r, nil
}

// Recorder queries one manager periodically and writes its state into a store.
type Recorder struct {
	// Namespace and Manager are labels of the series. They must be unique among recorders.
	Namespace, Manager string
	Ask                Asker
	Store              storage.AppendableV2
	// Interval is the time between queries.
	Interval time.Duration
	Readings Readings
	Clock    clock.WithTicker
	Log      logr.Logger

	written map[Key]bool // series that have not ended
	last    time.Time    // when values were last written
}

// Run writes until ctx ends. It keeps querying a manager that does not answer: the manager may not
// have been started yet.
func (r *Recorder) Run(ctx context.Context) error {
	for _, answered := range []bool{true, false} { // both counters exist from the beginning, at 0
		r.reading(answered)
	}
	poll.Every(ctx, r.Clock, r.Interval, r.Record, r.note())
	return nil
}

// note returns a function that logs each error once, and recovery.
func (r *Recorder) note() func(error) { return poll.Changes(r.say) }

// say logs an error or recovery.
func (r *Recorder) say(err error) {
	log := r.Log.WithValues("namespace", r.Namespace, "manager", r.Manager)
	switch {
	case errors.Is(err, ErrCategories):
		log.Info("Recorded the whole queue of a Work Queue manager, but not its categories", "why", err.Error())
	case err != nil:
		log.Error(err, "Failed to read the queue of a Work Queue manager, will retry")
	default:
		log.Info("Read the queue of a Work Queue manager")
	}
}

// Record queries once and writes the state at the current time. If there is no answer, or it is not
// the state of a queue, all series but [Up] end, so that earlier values are not current.
func (r *Recorder) Record(ctx context.Context) error {
	var series map[Key]float64
	q, err := r.Ask.Queue(ctx)
	if err == nil {
		series, err = Of(&q)
	}
	if ctx.Err() != nil {
		return err // the caller gave up, not the manager
	}
	answered := series != nil
	r.reading(answered).Inc()
	if !answered {
		series = map[Key]float64{{Name: Up}: 0}
	} else {
		series[Key{Name: Up}] = 1
	}
	return errors.Join(err, r.write(ctx, series))
}

func (r *Recorder) reading(answered bool) prometheus.Counter {
	return r.Readings.WithLabelValues(r.Namespace, r.Manager, strconv.FormatBool(answered))
}

// write writes the series, and the end of those that are gone, all or none. Ends that could not be
// written are written the next time.
func (r *Recorder) write(ctx context.Context, series map[Key]float64) error {
	at := r.Clock.Now()
	if !at.After(r.last) {
		return fmt.Errorf("write the queue of Work Queue manager %s: the clock was set back to %v, and samples are rejected until it is %v again",
			r.Manager, at.Format(time.RFC3339), r.last.Format(time.RFC3339))
	}
	appender := r.Store.AppenderV2(ctx)
	put := func(key Key, v float64) error {
		if _, err := appender.Append(0, r.labels(key), 0, at.UnixMilli(), v, nil, nil, storage.AOptions{}); err != nil {
			return errors.Join(fmt.Errorf("write %s of Work Queue manager %s: %w", key.Name, r.Manager, err), appender.Rollback())
		}
		return nil
	}
	for key := range r.written {
		if _, still := series[key]; !still {
			if err := put(key, math.Float64frombits(value.StaleNaN)); err != nil {
				return err
			}
		}
	}
	for key, v := range series {
		if err := put(key, v); err != nil {
			return err
		}
	}
	if err := appender.Commit(); err != nil {
		return fmt.Errorf("write the queue of Work Queue manager %s: %w", r.Manager, err)
	}
	r.written, r.last = make(map[Key]bool, len(series)), at
	for key := range series {
		r.written[key] = true
	}
	return nil
}

func (r *Recorder) labels(of Key) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	b.Set(model.MetricNameLabel, of.Name).Set("namespace", r.Namespace).Set("manager", r.Manager)
	b.Set("category", of.Category).Set("resource", of.Resource)
	return b.Labels() // without empty labels
}
