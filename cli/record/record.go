package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/input/trace"
)

// Options configure a recording.
type Options struct {
	Client kubernetes.Interface
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
	// Check permissions first: the watches below would retry without end.
	if _, err := o.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if _, err := o.Client.CoreV1().Pods(o.Namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
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

// recorder appends what watches report. One goroutine does all tracking.
type recorder struct {
	Options
	tracker *Tracker
	seen    chan func() []trace.Row
}

// watch records until ctx ends.
func (r *recorder) watch(ctx context.Context, interrupted time.Duration, watching Watching) error {
	factory := informers.NewSharedInformerFactoryWithOptions(r.Client, 0, informers.WithNamespace(r.Namespace), informers.WithTransform(strip))
	nodes, pods := factory.Core().V1().Nodes(), factory.Core().V1().Pods()
	for _, informer := range []cache.SharedIndexInformer{nodes.Informer(), pods.Informer()} {
		if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { r.Trouble(err) }); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if _, err := informer.AddEventHandler(r.handler(ctx)); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced, pods.Informer().HasSynced) {
		return nil // ctx ended before the caches were synced
	}
	listedNodes, err := nodes.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	listedPods, err := pods.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	if err := r.File.Append(r.there(listedNodes, listedPods, interrupted)...); err != nil {
		return err
	}
	if watching != nil {
		close(watching)
	}
	return r.follow(ctx)
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
