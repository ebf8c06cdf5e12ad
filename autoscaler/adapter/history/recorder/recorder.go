// Package recorder writes the series of package history into a store, when pods start, end or move and when nodes come
// or go.
package recorder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/adapter/history"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/poll"
)

// settle is how long changes are collected before they are written: a rollout starts many
// pods at once. ease limits the share of CPU time in a large cluster: the pause after a
// recording is at least ease times its duration.
const (
	settle = time.Second
	ease   = 20
)

// Recorder writes the series into a store. It reads from a cache, so its only API requests
// are watches.
type Recorder struct {
	Cache cache.Cache
	Store storage.AppendableV2
	// Repeat is the interval at which unchanged values are written again. It must be within
	// the lookback of queries, which ignore older samples.
	Repeat time.Duration
	// MostPods is the maximum number of pods with series of their own; if there are more
	// pods, none has.
	MostPods int
	Clock    clock.WithTicker
	Log      logr.Logger

	nodes, pods written
}

// written is the state that was written last, and when it was last written in full.
type written struct {
	history.State
	full time.Time
}

// Run writes until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	changed, err := operator.Watch(ctx, r.Cache, &corev1.Node{}, &corev1.Pod{})
	if err != nil {
		return err
	}
	for {
		began := r.Clock.Now()
		if err := r.Record(ctx); err != nil && ctx.Err() == nil {
			r.Log.Error(err, "Failed to record the history of the cluster, will retry")
			changed.Note()
		}
		if !poll.Wait(ctx, r.Clock, max(settle, ease*r.Clock.Since(began)), nil) || !poll.Wait(ctx, r.Clock, r.Repeat, changed) {
			return nil
		}
	}
}

// Record writes the changes since the last call, the end of series that are gone, and, every
// Repeat, all values. Values that could not be written are tried again in the next call.
func (r *Recorder) Record(ctx context.Context) error {
	var nodes corev1.NodeList
	var pods corev1.PodList
	// The objects of the cache are not modified.
	if err := errors.Join(r.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy), r.Cache.List(ctx, &pods, client.UnsafeDisableDeepCopy)); err != nil {
		return fmt.Errorf("list nodes and pods: %w", err)
	}
	now, there := r.Clock.Now(), pointers(pods.Items)
	ofPods := history.OfPods(there, r.MostPods)
	if ofPods == nil && (r.pods.State != nil || r.pods.full.IsZero()) {
		r.Log.Info("Too many pods, no series per pod are recorded: raise --store-max-series", "most", r.MostPods)
	}
	// Write them separately: the store may have room for the series of nodes when it has none
	// for the many series of pods.
	return errors.Join(r.write(ctx, &r.nodes, history.Of(pointers(nodes.Items), there), now), r.write(ctx, &r.pods, ofPods, now))
}

// write writes the changes from the last written state to state, all or none.
func (r *Recorder) write(ctx context.Context, last *written, state history.State, now time.Time) error {
	all := now.Sub(last.full) >= r.Repeat
	appender := r.Store.AppenderV2(ctx)
	for key, v := range changes(last.State, state, all) {
		if _, err := appender.Append(0, labelsOf(&key), 0, now.UnixMilli(), v, nil, nil, storage.AOptions{}); err != nil {
			return errors.Join(fmt.Errorf("write %s of node %s: %w", key.Name, key.Node, err), appender.Rollback())
		}
	}
	if err := appender.Commit(); err != nil {
		return fmt.Errorf("write the history of the cluster: %w", err)
	}
	if last.State = state; all {
		last.full = now
	}
	return nil
}

// changes returns the values to write to get from one state to the other, with a staleness
// marker for each series that is gone. If all is set, unchanged values are included.
func changes(before, after history.State, all bool) history.State {
	write := history.State{}
	for key := range before {
		if _, still := after[key]; !still {
			write[key] = math.Float64frombits(value.StaleNaN)
		}
	}
	if all {
		maps.Copy(write, after)
		return write
	}
	for key, v := range after {
		if old, had := before[key]; !had || old != v {
			write[key] = v
		}
	}
	return write
}

// labelsOf returns the labels of a series.
func labelsOf(k *history.Key) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	b.Set(model.MetricNameLabel, k.Name).Set("node", k.Node).Set("machine_type", k.MachineType).Set("resource", k.Resource)
	b.Set("namespace", k.Namespace).Set("pod", k.Pod).Set("owner_kind", k.OwnerKind).Set("owner_name", k.OwnerName)
	return b.Labels() // without empty labels
}

func pointers[T any](items []T) []*T {
	p := make([]*T, len(items))
	for i := range items {
		p[i] = &items[i]
	}
	return p
}
