package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/input/trace"
)

// Options configure a recording.
type Options struct {
	Client client.WithWatch
	// Namespace is the namespace of the recorded pods; empty for all.
	Namespace string
	File      *File
	Price     func(*corev1.Node) *int64
	Clock     clock.WithTicker
	// Alive is the interval of the rows that show that the recording continues. It must be
	// positive.
	Alive time.Duration
	// Trouble receives errors that are retried.
	Trouble func(error)
}

// Watching is closed, if it is not nil, after all existing objects have been recorded.
type Watching chan struct{}

// Run records until ctx ends. Then the file is complete; Run does not close it.
func Run(ctx context.Context, o Options, watching Watching) (*Tracker, error) {
	if err := checkPermissions(ctx, &o); err != nil {
		return nil, err
	}
	t := NewTracker(o.File.Name, o.Price, o.File.Before)
	interrupted := t.Interrupted()
	if err := o.File.Append(t.Begin(o.Clock.Now(), o.File.Hashed)); err != nil {
		return nil, err
	}
	r := &recorder{Options: o, tracker: t, seen: make(chan func() []trace.Row)}
	if err := r.watch(ctx, interrupted, watching); err != nil {
		return nil, err
	}
	if err := o.File.Append(t.Stop(o.Clock.Now())); err != nil {
		return nil, err
	}
	return t, o.File.Sync()
}

// checkPermissions returns an error if nodes or pods may not be listed and watched. The informers would retry without end.
func checkPermissions(ctx context.Context, o *Options) error {
	for _, what := range []struct {
		name string
		list client.ObjectList
		in   string
	}{{"nodes", &corev1.NodeList{}, ""}, {"pods", &corev1.PodList{}, o.Namespace}} {
		if err := o.Client.List(ctx, what.list, client.InNamespace(what.in), client.Limit(1)); err != nil {
			return fmt.Errorf("list %s: %w", what.name, err)
		}
		w, err := o.Client.Watch(ctx, what.list, client.InNamespace(what.in))
		if err != nil {
			return fmt.Errorf("watch %s: %w", what.name, err)
		}
		w.Stop()
	}
	return nil
}

// recorder appends what watches report. One goroutine does all tracking.
type recorder struct {
	Options
	tracker *Tracker
	seen    chan func() []trace.Row
}

// watch records until ctx ends.
func (r *recorder) watch(ctx context.Context, interrupted time.Duration, watching Watching) error {
	nodes := r.informer(&corev1.Node{}, func() client.ObjectList { return &corev1.NodeList{} })
	pods := r.informer(&corev1.Pod{}, func() client.ObjectList { return &corev1.PodList{} }, client.InNamespace(r.Namespace))
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, informer := range []cache.SharedIndexInformer{nodes, pods} {
		if err := r.prepare(ctx, informer); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, pods.HasSynced) {
		return nil // ctx ended before the caches were synced
	}
	listedNodes, listedPods := stored[*corev1.Node](nodes), stored[*corev1.Pod](pods)
	if err := r.File.Append(r.there(listedNodes, listedPods, interrupted)...); err != nil {
		return err
	}
	if watching != nil {
		close(watching)
	}
	return r.follow(ctx)
}

// informer returns an informer of the objects of a kind. The clientset has informers too, but all its kinds would add
// several megabytes to the program.
func (r *recorder) informer(kind client.Object, list func() client.ObjectList, in ...client.ListOption) cache.SharedIndexInformer {
	with := func(o *metav1.ListOptions) *client.ListOptions {
		all := &client.ListOptions{Raw: o, Limit: o.Limit, Continue: o.Continue}
		return all.ApplyOptions(in)
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			into := list()
			return into, r.Client.List(ctx, into, with(&o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return r.Client.Watch(ctx, list(), with(&o))
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, r.Client), kind, 0, cache.Indexers{})
}

// prepare has an informer report what it sees, and what it retries, until ctx ends.
func (r *recorder) prepare(ctx context.Context, informer cache.SharedIndexInformer) error {
	if err := informer.SetTransform(strip); err != nil {
		return err
	}
	if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { r.Trouble(err) }); err != nil {
		return err
	}
	_, err := informer.AddEventHandler(r.handler(ctx))
	return err
}

// stored returns the objects that an informer has, in any order.
func stored[O any](informer cache.SharedIndexInformer) []O {
	all := informer.GetStore().List()
	objects := make([]O, len(all))
	for i, o := range all {
		objects[i] = o.(O)
	}
	return objects
}

// there returns the rows of the existing objects, and of those deleted since an earlier part of the
// recording was interrupted. Nodes come first, because DaemonSet pods refer to them. Both are
// sorted by creation time, then namespace and name.
func (r *recorder) there(nodes []*corev1.Node, pods []*corev1.Pod, interrupted time.Duration) (rows []trace.Row) {
	now := r.Clock.Now()
	slices.SortFunc(nodes, earlier[*corev1.Node])
	slices.SortFunc(pods, earlier[*corev1.Pod])
	uids := make([]string, 0, len(nodes))
	for _, node := range nodes {
		uids = append(uids, string(node.UID))
		rows = append(rows, r.tracker.Node(node, now)...)
	}
	for _, pod := range pods {
		rows = append(rows, r.tracker.Pod(pod, now)...)
	}
	return append(rows, r.tracker.Missing(uids, interrupted)...)
}

func earlier[O metav1.Object](a, b O) int {
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(x.Compare(y.Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// strip drops large fields that are not needed.
func strip(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// handler sends the observations of watches to the goroutine of follow.
func (r *recorder) handler(ctx context.Context) cache.ResourceEventHandler {
	send := func(rows func() []trace.Row) {
		select {
		case r.seen <- rows:
		case <-ctx.Done():
		}
	}
	seen := func(object any) {
		send(func() []trace.Row {
			switch o := object.(type) {
			case *corev1.Node:
				return r.tracker.Node(o, r.Clock.Now())
			case *corev1.Pod:
				return r.tracker.Pod(o, r.Clock.Now())
			}
			return nil
		})
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if last, is := object.(cache.DeletedFinalStateUnknown); is {
				object = last.Obj
			}
			send(func() []trace.Row {
				switch o := object.(type) {
				case *corev1.Node:
					return r.tracker.NodeGone(o, r.Clock.Now())
				case *corev1.Pod:
					return r.tracker.PodGone(o, r.Clock.Now())
				}
				return nil
			})
		},
	}
}

// follow appends observations until ctx ends, and regularly flushes them to the disk.
func (r *recorder) follow(ctx context.Context) error {
	alive := r.Clock.NewTicker(r.Alive)
	defer alive.Stop()
	quiet := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case rows := <-r.seen:
			all := rows()
			quiet = quiet && len(all) == 0
			if err := r.File.Append(all...); err != nil {
				return err
			}
		case <-alive.C():
			if quiet {
				if err := r.File.Append(r.tracker.Alive(r.Clock.Now())); err != nil {
					return err
				}
			}
			quiet = true
			if err := r.File.Sync(); err != nil {
				return fmt.Errorf("write to the disk: %w", err)
			}
		}
	}
}
