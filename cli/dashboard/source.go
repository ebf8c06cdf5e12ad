package dashboard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/status"
)

// source watches the objects of the page, and caches the parts that it needs.
type source struct {
	nodes, pods, fleets, migrations, policies, pools, profiles *followed
	events                                                     []*followed

	changed chan struct{} // has one element when something has changed
}

// controllers are the reporting controllers of Supercargo's Events.
var controllers = []string{"supercargo-autoscaler", "supercargo-descheduler"}

func newSource(c client.WithWatch) *source {
	s := &source{changed: make(chan struct{}, 1)}
	follow := func(name string, object client.Object, list func() client.ObjectList, selector string) *followed {
		return newFollowed(c, name, object, list, selector, s.touch)
	}
	s.nodes = follow("Nodes", &corev1.Node{}, func() client.ObjectList { return &corev1.NodeList{} }, "")
	s.pods = follow("Pods", &corev1.Pod{}, func() client.ObjectList { return &corev1.PodList{} }, "")
	s.fleets = follow("NodeFleets", &v1alpha1.NodeFleet{}, func() client.ObjectList { return &v1alpha1.NodeFleetList{} }, "")
	s.migrations = follow("Migrations", &v1alpha1.Migration{}, func() client.ObjectList { return &v1alpha1.MigrationList{} }, "")
	s.policies = follow("ReplicaPolicies", &v1alpha1.ReplicaPolicy{}, func() client.ObjectList { return &v1alpha1.ReplicaPolicyList{} }, "")
	s.pools = follow("WorkerPools", &v1alpha1.WorkerPool{}, func() client.ObjectList { return &v1alpha1.WorkerPoolList{} }, "")
	s.profiles = follow("MachineProfiles", &v1alpha1.MachineProfile{}, func() client.ObjectList { return &v1alpha1.MachineProfileList{} }, "")
	for _, controller := range controllers {
		s.events = append(s.events, follow("Events", &eventsv1.Event{}, func() client.ObjectList { return &eventsv1.EventList{} }, "reportingController="+controller))
	}
	return s
}

// touch signals a change.
func (s *source) touch() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *source) all() []*followed {
	return append([]*followed{s.nodes, s.pods, s.fleets, s.migrations, s.policies, s.pools, s.profiles}, s.events...)
}

// start starts to watch, until ctx ends.
func (s *source) start(ctx context.Context) {
	for _, f := range s.all() {
		go f.informer.RunWithContext(ctx)
	}
}

// ready returns nil when nodes and pods have been read for the first time, or an error if they cannot
// be.
func (s *source) ready(ctx context.Context) error {
	const often = 20 * time.Millisecond
	for {
		if s.nodes.informer.HasSynced() && s.pods.informer.HasSynced() {
			return nil
		}
		if err := errors.Join(s.nodes.fatal(), s.pods.fatal()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(often):
		}
	}
}

// snapshot returns the current objects. They are shared and must not be modified.
func (s *source) snapshot() *status.Snapshot {
	snapshot := &status.Snapshot{
		Nodes: objectsOf[*corev1.Node](s.nodes), Pods: objectsOf[*corev1.Pod](s.pods), Fleets: objectsOf[*v1alpha1.NodeFleet](s.fleets),
		Migrations: objectsOf[*v1alpha1.Migration](s.migrations), Policies: objectsOf[*v1alpha1.ReplicaPolicy](s.policies),
		Pools: objectsOf[*v1alpha1.WorkerPool](s.pools), Profiles: objectsOf[*v1alpha1.MachineProfile](s.profiles),
	}
	for _, f := range s.events {
		snapshot.Events = append(snapshot.Events, objectsOf[*eventsv1.Event](f)...)
	}
	noted := map[string]bool{}
	for _, f := range s.all() {
		if note := f.note(); note != "" && !noted[note] {
			noted[note] = true
			snapshot.Notes = append(snapshot.Notes, note)
		}
	}
	return snapshot
}

func objectsOf[T any](f *followed) []T {
	stored := f.informer.GetStore().List()
	all := make([]T, 0, len(stored))
	for _, object := range stored {
		if o, is := object.(T); is {
			all = append(all, o)
		}
	}
	return all
}

// followed is a watched kind.
type followed struct {
	name     string // plural, for messages
	informer cache.SharedIndexInformer

	mu  sync.Mutex
	err error // the last error of a list or watch; nil if it succeeded
}

func newFollowed(c client.WithWatch, name string, object client.Object, list func() client.ObjectList, selector string, touch func()) *followed {
	f := &followed{name: name}
	raw := func(o metav1.ListOptions) *client.ListOptions {
		o.FieldSelector = selector
		return &client.ListOptions{Raw: &o}
	}
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			l := list()
			err := c.List(ctx, l, raw(o))
			f.noteError(err)
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := c.Watch(ctx, list(), raw(o))
			f.noteError(err)
			return w, err
		},
	}
	f.informer = cache.NewSharedIndexInformerWithOptions(lister, object, cache.SharedIndexInformerOptions{})
	must(f.informer.SetTransform(strip))
	// The page shows errors; the informer retries.
	must(f.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) { touch() }))
	_, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { touch() }, UpdateFunc: func(any, any) { touch() }, DeleteFunc: func(any) { touch() },
	})
	must(err)
	return f
}

// must panics on errors that are only possible after an informer has started.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (f *followed) noteError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *followed) lastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// fatal returns the error of the last list or watch if retries cannot succeed.
func (f *followed) fatal() error {
	err := f.lastError()
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("watch %s: %w", f.name, err)
	}
	return nil
}

// note returns why objects of a kind are missing or outdated; empty if they are not, or if the kind is
// not installed.
func (f *followed) note() string {
	err := f.lastError()
	switch {
	case err == nil, meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return ""
	case apierrors.IsForbidden(err):
		return f.name + " are not shown: the user is not allowed to list and watch them"
	}
	return fmt.Sprintf("%s may be out of date: %v", f.name, err)
}
