// Package discover finds scrape targets: annotated pods and Services, kubelets, and node
// meters.
package discover

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/poll"
)

// settle is how long changes are collected before discovery runs again: a rollout changes
// many pods at once. ease limits its share of CPU time in a large cluster: the pause after a
// discovery is at least ease times its duration.
const (
	settle = time.Second
	ease   = 20
)

// Watcher sends the scrape targets each time they change. It reads from a cache, so its only
// API requests are watches.
type Watcher struct {
	Cache cache.Cache
	// Pods and Services enable discovery of these kinds by annotations. Kubelets enables the
	// kubelets of all nodes, to which Limits do not apply.
	Pods, Services, Kubelets bool
	// Meters is the namespace of the node meters, to which Limits do not apply; empty
	// disables them.
	Meters string
	// MeterPort is the port of the node meters.
	MeterPort int
	// Limits bound what is discovered.
	Limits target.Limits
	// Fixed are targets that are always scraped.
	Fixed []target.Target
	Clock clock.WithTicker
	Log   logr.Logger

	targets, dropped prometheus.Gauge
}

// Register registers the watcher's metrics.
func (w *Watcher) Register(r prometheus.Registerer) error {
	w.targets = prometheus.NewGauge(prometheus.GaugeOpts{Name: "supercargo_adapter_targets", Help: "Scraped targets."})
	w.dropped = prometheus.NewGauge(prometheus.GaugeOpts{Name: "supercargo_adapter_targets_dropped", Help: "Targets that are not scraped because they exceed the limit."})
	for _, c := range []prometheus.Collector{w.targets, w.dropped} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// kinds returns the kinds to watch.
func (w *Watcher) kinds() []client.Object {
	var kinds []client.Object
	if w.Pods || w.Meters != "" {
		kinds = append(kinds, &corev1.Pod{})
	}
	if w.Services {
		kinds = append(kinds, &corev1.Service{}, &discoveryv1.EndpointSlice{})
	}
	if w.Kubelets {
		kinds = append(kinds, &corev1.Node{})
	}
	return kinds
}

// Run sends all targets, at first and after each change, until ctx ends.
func (w *Watcher) Run(ctx context.Context, changes chan<- []target.Target) error {
	changed, err := operator.Watch(ctx, w.Cache, w.kinds()...)
	if err != nil {
		return err
	}
	changed.Note() // send the first targets even if there are no objects
	var last *target.Found
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		began := w.Clock.Now()
		found, err := w.Find(ctx)
		if err != nil {
			return err
		}
		if last == nil || !reflect.DeepEqual(*last, found) {
			w.say(found)
			last = &found
			select {
			case changes <- found.Targets:
			case <-ctx.Done():
				return nil
			}
		}
		if !poll.Wait(ctx, w.Clock, max(settle, ease*w.Clock.Since(began)), nil) {
			return nil
		}
	}
}

// Find returns the current targets.
func (w *Watcher) Find(ctx context.Context) (target.Found, error) {
	var pods corev1.PodList
	var services corev1.ServiceList
	var slices discoveryv1.EndpointSliceList
	var nodes corev1.NodeList
	lists := map[client.ObjectList]bool{&pods: w.Pods || w.Meters != "", &services: w.Services, &slices: w.Services, &nodes: w.Kubelets}
	for list, wanted := range lists {
		if wanted {
			// The objects of the cache are not modified.
			if err := w.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				return target.Found{}, fmt.Errorf("find targets: %w", err)
			}
		}
	}
	all := pointers(pods.Items)
	announced := all
	if !w.Pods {
		announced = nil
	}
	found := target.Discover(announced, pointers(services.Items), pointers(slices.Items), w.Limits)
	if w.Meters != "" {
		found.Targets = append(found.Targets, target.Meters(all, w.Meters, meterapi.Name, w.MeterPort)...)
	}
	found.Targets = append(append(append([]target.Target(nil), w.Fixed...), found.Targets...), target.Kubelets(pointers(nodes.Items))...)
	return found, nil
}

func pointers[T any](items []T) []*T {
	p := make([]*T, len(items))
	for i := range items {
		p[i] = &items[i]
	}
	return p
}

// say records metrics and logs for what was found.
func (w *Watcher) say(found target.Found) {
	if w.targets != nil {
		w.targets.Set(float64(len(found.Targets)))
		w.dropped.Set(float64(found.Dropped))
	}
	if found.Dropped > 0 {
		w.Log.Info("Some targets are not scraped because they exceed the limit: raise --scrape-target-limit, or list fewer namespaces", "dropped", found.Dropped)
	}
	for _, fault := range found.Faults {
		w.Log.Info("Ignoring an invalid annotation", "fault", fault)
	}
	w.Log.V(2).Info("Targets have changed", "targets", len(found.Targets))
}
