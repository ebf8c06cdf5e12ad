package usage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	corev1 "k8s.io/api/core/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/poll"
)

// Recorder queries metrics.k8s.io periodically and writes the series into a store.
type Recorder struct {
	// Metrics lists usage, and Pods lists pods from a cache.
	Metrics, Pods client.Reader
	Store         storage.AppendableV2
	// Interval is the time between queries. metrics.k8s.io updates pods about every 15 s.
	Interval time.Duration
	Clock    clock.WithTicker
	Log      logr.Logger

	written map[Key]Value
}

// Run writes until ctx ends. While metrics.k8s.io does not answer there are no series; it
// logs this once and retries.
func (r *Recorder) Run(ctx context.Context) error {
	poll.Every(ctx, r.Clock, r.Interval, r.Record, r.note())
	return nil
}

// note returns a function that logs each error once, and recovery.
func (r *Recorder) note() func(error) { return poll.Changes(r.say) }

// say logs an error or recovery.
func (r *Recorder) say(err error) {
	if err != nil {
		r.Log.Error(err, "Failed to read the resource usage of pods, will retry")
		return
	}
	r.Log.Info("Read the resource usage of pods again")
}

// Record queries once and writes the values that are new since the last call, and the end of
// series that are gone. If a read fails, all series end.
func (r *Recorder) Record(ctx context.Context) error {
	now := r.Clock.Now()
	series, fault := r.read(ctx, now)
	appender := r.Store.AppenderV2(ctx)
	write := func(key Key, v float64, at time.Time) error {
		_, err := appender.Append(0, key.labels(), 0, at.UnixMilli(), v, nil, nil, storage.AOptions{})
		if errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrDuplicateSampleForTimestamp) {
			return nil // the series had ended, and its last value is reported again
		}
		if err != nil {
			return errors.Join(fault, fmt.Errorf("write %s of pod %s: %w", key.Name, key.Pod, err), appender.Rollback())
		}
		return nil
	}
	for key, last := range r.written {
		if _, still := series[key]; !still {
			// Write the staleness marker just after the last sample, not now: the next sample
			// is later than the last one, but may be earlier than now.
			if err := write(key, math.Float64frombits(value.StaleNaN), last.At.Add(time.Millisecond)); err != nil {
				return err
			}
		}
	}
	for key, v := range series {
		if old, had := r.written[key]; had && !v.At.After(old.At) {
			series[key] = old // no new measurement
			continue
		}
		if err := write(key, v.Value, v.At); err != nil {
			return err
		}
	}
	if err := appender.Commit(); err != nil {
		return errors.Join(fault, fmt.Errorf("write the resource usage of pods: %w", err))
	}
	r.written = series
	return fault
}

func (r *Recorder) read(ctx context.Context, now time.Time) (map[Key]Value, error) {
	var metrics metricsv1beta1.PodMetricsList
	if err := r.Metrics.List(ctx, &metrics); err != nil {
		return nil, fmt.Errorf("list the resource usage of pods from metrics.k8s.io: %w", err)
	}
	var pods corev1.PodList
	if err := r.Pods.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil { // the objects are not modified
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return Of(metrics.Items, pods.Items, now), nil
}

func (k Key) labels() labels.Labels {
	return labels.FromStrings(model.MetricNameLabel, k.Name, "namespace", k.Pod.Namespace, "pod", k.Pod.Name, "resource", string(k.Resource))
}
