package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// sighting is an event of the watch about a pod.
type sighting struct {
	name string
	at   time.Time
	node string // empty: not bound

	// unschedulable is whether the scheduler has reported that no node has room for the pod.
	unschedulable bool

	ended   bool // ended by itself or killed, but not deleted yet
	failed  bool // ended without success
	removed bool
}

// watch sends events about the pods of this run to the loop until stop is called. It returns when
// the watch is established.
func (r *run) watch(ctx context.Context) (stop func(), err error) {
	factory := informers.NewSharedInformerFactoryWithOptions(r.opts.Client, 0,
		informers.WithNamespace(r.opts.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = LabelRun + "=" + r.opts.Run }))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.show(o, false) },
		UpdateFunc: func(_, o any) { r.show(o, false) },
		DeleteFunc: func(o any) { r.show(o, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("replay: watch pods: %w", err)
	}
	watching := make(chan struct{})
	factory.Start(watching)
	stop = func() {
		close(watching)
		close(r.blind)
		factory.Shutdown()
	}
	// Do not wait for the handler: it blocks until the loop runs, which starts only after this.
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		stop()
		return nil, fmt.Errorf("replay: watch pods: %w", errors.Join(errors.New("the initial list was not received"), context.Cause(ctx)))
	}
	if left := len(informer.GetStore().ListKeys()); left > 0 {
		stop()
		return nil, fmt.Errorf("replay: namespace %s still has %s with the label %s=%s: remove %s or use another run",
			r.opts.Namespace, plural.Count(left, "pod"), LabelRun, r.opts.Run, plural.Form(left, "it", "them"))
	}
	return stop, nil
}

// show sends relevant events to the loop.
func (r *run) show(object any, removed bool) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	s := sighting{
		name: pod.Name, at: r.opts.Clock.Now(), node: pod.Spec.NodeName, removed: removed,
		ended: class.Ended(pod), failed: pod.Status.Phase == corev1.PodFailed,
	}
	_, s.unschedulable = world.Unschedulable(pod)
	if s.node == "" && !s.ended && !s.removed && !s.unschedulable {
		return
	}
	select {
	case r.sightings <- s:
	case <-r.blind:
	}
}
