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

// Asker is what the state of a queue is asked of, such as a [Source].
type Asker interface {
	Queue(ctx context.Context) (workqueue.Queue, error)
}

// Readings counts how often each manager was asked, by its namespace, its name, and whether
// it "answered" ("true" or "false"); see [Count].
type Readings struct{ *prometheus.CounterVec }

// Count makes the counter of readings in a registry, if that is not nil.
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

// Recorder asks one manager again and again, and writes what it says into a store.
type Recorder struct {
	// Namespace and Manager are labels of the series, which no other recorder has.
	Namespace, Manager string
	Ask                Asker
	Store              storage.AppendableV2
	// Interval is how often it asks.
	Interval time.Duration
	Readings Readings
	Clock    clock.WithTicker
	Log      logr.Logger

	written map[Key]bool // series that have not ended
	last    time.Time    // of all that was written
}

// Run writes until ctx ends. A manager that does not answer is asked on: it may not have
// been started yet.
func (r *Recorder) Run(ctx context.Context) error {
	for _, answered := range []bool{true, false} { // both are there from the beginning, as 0
		r.reading(answered)
	}
	poll.Every(ctx, r.Clock, r.Interval, r.Record, r.note())
	return nil
}

// note returns what says each fault once, and its end.
func (r *Recorder) note() func(error) { return poll.Changes(r.say) }

// say logs what has become of asking.
func (r *Recorder) say(err error) {
	log := r.Log.WithValues("namespace", r.Namespace, "manager", r.Manager)
	switch {
	case errors.Is(err, ErrCategories):
		log.Info("Of a Work Queue manager the whole queue is known, and no category", "why", err.Error())
	case err != nil:
		log.Error(err, "What a Work Queue manager has to do is not known: it is asked again")
	default:
		log.Info("What a Work Queue manager has to do is known")
	}
}

// Record asks once and writes what was said, as of when it was said. When there is no
// answer, or one that is no state of a queue, all series but [Up] end: nothing that was said
// earlier is taken for current.
func (r *Recorder) Record(ctx context.Context) error {
	var series map[Key]float64
	q, err := r.Ask.Queue(ctx)
	if err == nil {
		series, err = Of(&q)
	}
	if ctx.Err() != nil {
		return err // it was not the manager that gave up
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

// write writes the series and the end of those that are no longer there, whole or not at
// all. What could not be ended is ended the next time.
func (r *Recorder) write(ctx context.Context, series map[Key]float64) error {
	at := r.Clock.Now()
	if !at.After(r.last) {
		return fmt.Errorf("write what Work Queue manager %s said: the clock was set back to %v, and there is nothing new until it is %v again",
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
		return fmt.Errorf("write what Work Queue manager %s said: %w", r.Manager, err)
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
	return b.Labels() // without those that are empty
}
