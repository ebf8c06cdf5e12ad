package sim

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/learning"
	"supercargo.dev/supercargo/internal/runtimes"
)

// engine is one run in progress.
type engine struct {
	input   Input
	clock   *Clock
	sched   *Scheduler
	learner *runtimes.Learner
	less    fwk.LessFunc

	events   timeline
	sequence int
	last     time.Duration // when a pod came or ended last
	fresh    []*queued     // arrived at this moment, not tried yet
	parked   []*queued     // found no room
	freed    bool          // room has come free since the parked were last tried
	ticking  bool          // a tick is on its way
	toEnd    []running     // services that run to the end
	result   Result
}

// queued is a pod in the queue, as the QueueSort plugin wants it.
type queued struct {
	pod  Pod
	info *framework.QueuedPodInfo
}

// running is a pod on a node.
type running struct {
	pod    Pod
	object *corev1.Pod
	start  time.Duration
}

// Run simulates the input to its end: until the horizon has passed and all batch
// work that found a place has ended. Pods that fit nowhere stay pending and are
// counted. It stops early when ctx ends, with its error.
//
// Cost: that of the scheduling attempts, plus O(log n) an event for n pods
// running. Pods that have ended cost nothing.
func Run(ctx context.Context, input Input) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := &engine{input: input, clock: &Clock{}}
	configuration, ties, err := BreakTies(input.Configuration, input.Seed)
	if err != nil {
		return nil, err
	}
	e.sched, err = NewScheduler(ctx, SchedulerOptions{Configuration: configuration, Clock: e.clock, Plugins: ties})
	if err != nil {
		return nil, err
	}
	profile := e.sched.Profiles[corev1.DefaultSchedulerName]
	if profile == nil {
		return nil, fmt.Errorf("the scheduler's configuration has no profile %s", corev1.DefaultSchedulerName)
	}
	e.less = profile.QueueSortFunc()
	e.learner = learning.Shared(ctx, e.sched.client)
	for _, m := range input.Machines {
		e.sched.AddNode(nodeObject(m))
	}
	for i := range input.Pods {
		e.push(event{at: input.Pods[i].Arrival, kind: arrival, pod: input.Pods[i]})
	}
	e.result.begin(input)
	if err := e.loop(ctx); err != nil {
		return nil, err
	}
	e.finish()
	return &e.result, nil
}

// loop handles all that happens at one moment, then serves the queue, and goes on
// to the next moment.
func (e *engine) loop(ctx context.Context) error {
	for len(e.events) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := e.events[0].at
		e.clock.set(now)
		tick := false
		for len(e.events) > 0 && e.events[0].at == now {
			ev := heap.Pop(&e.events).(event)
			switch ev.kind {
			case arrival:
				e.fresh = append(e.fresh, e.enqueue(ev.pod))
				e.result.submitted(now)
			case end:
				if err := e.end(ev.running); err != nil {
					return err
				}
			case tickOver:
				tick, e.ticking = true, false
			}
			if ev.kind != tickOver {
				e.last = now
			}
		}
		if err := e.serve(tick); err != nil {
			return err
		}
	}
	return nil
}

// serve tries new pods, and at a tick also those that found no room before, all
// in the order of the queue.
func (e *engine) serve(tick bool) error {
	queue := e.fresh
	e.fresh = nil
	if tick && e.freed {
		queue = append(queue, e.parked...)
		e.parked, e.freed = nil, false
	}
	slices.SortFunc(queue, func(a, b *queued) int {
		switch {
		case e.less(a.info, b.info):
			return -1
		case e.less(b.info, a.info):
			return 1
		default:
			return cmp.Compare(a.pod.Name, b.pod.Name)
		}
	})
	for _, q := range queue {
		if err := e.try(q); err != nil {
			return err
		}
	}
	if len(e.parked) > 0 && e.freed {
		e.tickSoon()
	}
	return nil
}

func (e *engine) try(q *queued) error {
	a := e.sched.Attempt(q.info.Pod)
	var unfit *framework.FitError
	if errors.As(a.Err, &unfit) {
		e.parked = append(e.parked, q)
		return nil
	}
	if a.Err != nil {
		return fmt.Errorf("schedule pod %s: %w", q.pod.Name, a.Err)
	}
	placed, err := e.sched.Assume(q.info.Pod, a)
	if err != nil {
		return err
	}
	now := e.now()
	r := running{pod: q.pod, object: placed, start: now}
	e.result.started(r, now)
	if q.pod.Class == class.Service && q.pod.Runtime == 0 {
		e.toEnd = append(e.toEnd, r)
		return nil
	}
	e.push(event{at: now + q.pod.Runtime, kind: end, running: r})
	return nil
}

func (e *engine) end(r running) error {
	if err := e.sched.RemovePod(r.object); err != nil {
		return fmt.Errorf("end pod %s: %w", r.pod.Name, err)
	}
	if r.pod.Class == class.Batch {
		e.learner.Observe(r.object.Namespace, r.pod.Category, r.pod.Runtime)
	}
	e.freed = true
	e.result.ended(r, e.now())
	if len(e.parked) > 0 {
		e.tickSoon()
	}
	return nil
}

// tickSoon makes sure of a tick at the next multiple of the scheduling interval.
func (e *engine) tickSoon() {
	if e.ticking {
		return
	}
	e.ticking = true
	interval := max(time.Millisecond, e.input.SchedulingInterval)
	e.push(event{at: (e.now()/interval + 1) * interval, kind: tickOver})
}

// finish ends the run: services that run to the end stop, machines are paid.
func (e *engine) finish() {
	over := max(e.last, e.input.Horizon)
	for _, r := range e.toEnd {
		e.result.ended(r, over)
	}
	e.result.finish(e.input, over, len(e.parked))
}

func (e *engine) now() time.Duration { return e.clock.Since(epoch) }

func (e *engine) push(ev event) {
	e.sequence++
	ev.sequence = e.sequence
	heap.Push(&e.events, ev)
}

func (e *engine) enqueue(p Pod) *queued {
	object := podObject(p)
	info, err := framework.NewPodInfo(object)
	if err != nil { // only malformed affinity terms, which these pods do not have
		panic(err)
	}
	return &queued{pod: p, info: &framework.QueuedPodInfo{PodInfo: info, Timestamp: e.clock.Now()}}
}

func podObject(p Pod) *corev1.Pod {
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: p.Name, UID: types.UID(p.Name),
			CreationTimestamp: metav1.NewTime(epoch.Add(p.Arrival)),
			Labels:            map[string]string{v1alpha1.LabelClass: string(p.Class)},
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(p.Size.MilliCPU, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(p.Size.MemoryBytes, resource.BinarySI),
			}}}},
		},
	}
	if p.Class == class.Batch {
		object.Annotations = map[string]string{v1alpha1.AnnotationRuntime: p.Runtime.String()}
		if p.Category != "" {
			object.Annotations = map[string]string{v1alpha1.AnnotationCategory: p.Category}
		}
	}
	return object
}

func nodeObject(m Machine) *corev1.Node {
	size := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(m.Flavor.Size.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(m.Flavor.Size.MemoryBytes, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(m.Flavor.MaxPods, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{
			corev1.LabelHostname: m.Name, corev1.LabelInstanceTypeStable: m.Flavor.Name, v1alpha1.LabelClass: string(m.Class),
		}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
}
