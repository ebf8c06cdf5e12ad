package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/lab/scenario"
)

// queued is a waiting pod in the form that the QueueSort plugin needs.
type queued struct {
	pod   *scenario.Pod
	info  *framework.QueuedPodInfo
	since time.Duration // when it began to wait
	// started means that it ran before and was evicted. ends is then the fixed end of a service
	// with a limited lifetime.
	started bool
	first   time.Duration // first start
	ends    time.Duration
	reason  string // why the scheduler found no node
}

// failure is a kind of pod that was unschedulable.
type failure struct {
	class class.Class
	arch  string
	size  packing.Size
}

// serve tries new pods and, if all is true, also parked pods, in queue order.
//
// All pods are plain: whether a node accepts a pod depends only on class, architecture and size,
// and a node that rejected a pod also rejects pods with the same or greater requests. Such pods are
// parked without an attempt, new ones even if room has been freed since: they do not overtake a
// waiting pod with the same or smaller requests.
func (e *engine) serve(all bool) error {
	queue := e.fresh
	e.fresh = nil
	if all && e.freed {
		queue = append(queue, e.parked...)
		e.parked, e.freed = nil, false
		e.failures = e.failures[:0]
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
	return nil
}

func (e *engine) try(q *queued) error {
	if known := e.hopeless(q.pod); known != nil {
		e.park(q, *known)
		return nil
	}
	a := e.sched.Attempt(q.info.Pod)
	e.count("schedulingAttempts")
	var unfit *framework.FitError
	switch {
	case errors.As(a.Err, &unfit):
		e.refused(q, shortReason(unfit))
		return nil
	case errors.Is(a.Err, scheduler.ErrNoNodesAvailable):
		e.refused(q, "there is no node")
		return nil
	}
	if a.Err != nil {
		return fmt.Errorf("schedule pod %s: %w", q.pod.Name, a.Err)
	}
	placed, err := e.sched.Assume(q.info.Pod, a)
	if err != nil {
		return err
	}
	e.start(q, placed)
	return nil
}

// refused parks an unschedulable pod.
func (e *engine) refused(q *queued, reason string) {
	e.failures = append(e.failures, parkedFailure{failure{q.pod.Class, q.pod.Arch, q.pod.Size}, reason})
	e.park(q, reason)
}

type parkedFailure struct {
	failure
	reason string
}

// hopeless returns the known reason why no node fits the pod, or why it must wait for the next
// attempt, or nil.
func (e *engine) hopeless(p *scenario.Pod) *string {
	if e.input.exhaustive && !e.freed {
		return nil
	}
	for i := range e.failures {
		f := &e.failures[i]
		if f.class == p.Class && (f.arch == "" || f.arch == p.Arch) && f.size.Fits(p.Size) {
			return &f.reason
		}
	}
	return nil
}

// park keeps a pod until room is freed.
func (e *engine) park(q *queued, reason string) {
	q.reason = reason
	e.parked = append(e.parked, q)
}

// roomier records that room has been freed: parked pods may now be schedulable.
func (e *engine) roomier() { e.freed = true }

// start runs a pod on its assigned node.
func (e *engine) start(q *queued, placed *corev1.Pod) {
	m := e.machine(placed.Spec.NodeName)
	r := &running{pod: q.pod, object: placed, on: m, first: e.now, since: e.now, left: q.pod.Runtime, ends: q.ends}
	if q.started {
		r.first = q.first
	}
	if q.pod.Class == class.Batch {
		r.expected = e.now + slowed(runtimes.EstimateOf(placed, e.learner, runtimes.Default).Runtime, m.flavor.Speed)
	}
	if q.pod.Lifetime > 0 && !q.started {
		r.ends = e.now + q.pod.Lifetime
	}
	if q.pod.Class == class.Service {
		e.result.serviceWaited(q.since, e.now)
	}
	reason := "scheduled"
	if q.started {
		reason = "scheduled again after its eviction"
	} else {
		e.result.Scheduled++
		e.result.Waits = append(e.result.Waits, e.now-q.pod.Arrival)
	}
	e.place(r, m, reason)
	e.result.BatchRunning += batchOne(q.pod)
	m.pods = append(m.pods, r)
	e.take(m, q.pod.Size)
	e.endLater(r)
	e.record(fact{what: podStarted, pod: q.pod.Name, node: m.name})
	if !q.started || q.pod.Class == class.Batch { // services may cycle forever
		e.progress()
	}
}

func batchOne(p *scenario.Pod) int {
	if p.Class == class.Batch {
		return 1
	}
	return 0
}

// endLater plans the end of a pod that continues now.
func (e *engine) endLater(r *running) {
	r.generation++
	r.since = e.now
	at := r.ends
	if r.pod.Class == class.Batch {
		at = e.now + slowed(r.left, r.on.flavor.Speed)
	}
	if r.pod.Class == class.Batch || r.ends > 0 {
		e.push(event{at: max(at, e.now), kind: end, running: r, generation: r.generation})
	}
}

// slowed returns the duration of work at a speed, rounded up to the nanosecond.
func slowed(work time.Duration, speed float64) time.Duration {
	if speed == 1 {
		return work
	}
	took := time.Duration(float64(work) / speed)
	if float64(took)*speed < float64(work) {
		took++
	}
	return took
}

// done returns the work of a batch pod since it last started that is not yet deducted from left. A
// migrating pod does no work.
func (r *running) done(now time.Duration) time.Duration {
	if r.to != nil {
		return 0
	}
	if speed := r.on.flavor.Speed; speed != 1 {
		return min(r.left, time.Duration(float64(now-r.since)*speed))
	}
	return min(r.left, now-r.since)
}

func (e *engine) enqueue(p *scenario.Pod, attempt int) *queued {
	object := podObject(p, e.now, attempt)
	info, err := framework.NewPodInfo(object)
	if err != nil { // only malformed affinity terms, which these pods do not have
		panic(err)
	}
	waiting := &framework.QueuedPodInfo{PodInfo: info}
	waiting.Timestamp = e.clock.Now()
	return &queued{pod: p, since: e.now, info: waiting}
}

// podObject returns the pod as created for the first time or, if attempt is above 0, after that
// many evictions.
func podObject(p *scenario.Pod, now time.Duration, attempt int) *corev1.Pod {
	uid := p.Name
	if attempt > 0 {
		uid = fmt.Sprintf("%s/%d", p.Name, attempt)
	}
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(p.Namespace, metav1.NamespaceDefault), Name: p.Name, UID: types.UID(uid),
			CreationTimestamp: metav1.NewTime(Epoch.Add(now)),
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
	addExtended(object.Spec.Containers[0].Resources.Requests, p.Size)
	if p.Arch != "" {
		object.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: p.Arch}
	}
	if p.Class == class.Batch {
		object.Annotations = map[string]string{v1alpha1.AnnotationRuntime: p.Runtime.String()}
		if p.Category != "" {
			object.Annotations = map[string]string{v1alpha1.AnnotationCategory: p.Category}
		}
	}
	if p.EnergyWeight != nil {
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		object.Annotations[v1alpha1.AnnotationEnergyWeight] = written(*p.EnergyWeight)
	}
	return object
}

// written formats an energy weight for annotations.
func written(h float64) string { return strconv.FormatFloat(h, 'f', -1, 64) }

// namespaces returns the namespaces of the scenario with their energy weights.
func namespaces(s *scenario.Scenario) []*corev1.Namespace {
	all := make([]*corev1.Namespace, len(s.Namespaces))
	for i, ns := range s.Namespaces {
		all[i] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
		if ns.EnergyWeight != nil {
			all[i].Annotations = map[string]string{v1alpha1.AnnotationEnergyWeight: written(*ns.EnergyWeight)}
		}
	}
	return all
}
