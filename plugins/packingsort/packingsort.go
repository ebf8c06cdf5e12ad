// Package packingsort is the scheduler QueueSort plugin that orders pods as is best for packing, without starving any.
//
// kube-scheduler has one queue for all profiles, so there is one order for batch pods and services, and the plugin
// takes no arguments.
package packingsort

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/plugins/learning"
	"supercargo.dev/supercargo/plugins/narrowing"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = "PackingSort"

const (
	// maxLead bounds the effect of size against age: a new pod is never overtaken by a pod of its priority that was
	// created more than maxLead after it.
	maxLead = 10 * time.Minute

	// retryWindow is the width of the windows in which failed pods are ordered: pods that failed within one window are
	// retried in the order of their size and age. It is kube-scheduler's default podMaxBackoffSeconds, so that in the
	// long run no pod is tried twice in a window while others wait for their first attempt in it.
	retryWindow = 10 * time.Second

	// halfLead is the runtime that gives half of maxLead: the middle of the range in which runtimes are distinguished
	// best.
	halfLead = 10 * time.Minute

	// sizeClasses is the number of size classes of each resource. A class holds sizes within a factor of two; the
	// smallest holds all sizes up to its floor.
	sizeClasses   = 16
	memoryFloor   = 64 << 20 // bytes; the greatest class starts at 1 TiB
	milliCPUFloor = 50       // the greatest class starts at about 820 CPUs

	// maxFrozen bounds the waiting pods that keep the runtime first learned for them.
	maxFrozen = 32_768
)

// Plugin orders the scheduling queue.
type Plugin struct {
	learner *runtimes.Learner
	// frozen keeps the runtime of pods whose runtime is learned: a key that changed while the pod waits would break the
	// queue's heap.
	frozen *lru.Cache // UID -> time.Duration
}

var _ fwk.QueueSortPlugin = (*Plugin)(nil)

// New returns the plugin, which takes no arguments.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if args != nil {
		return nil, fmt.Errorf("%s: the plugin has no arguments: remove its pluginConfig", Name)
	}
	return &Plugin{learner: learning.Shared(ctx, handle.ClientSet()), frozen: lru.New(maxFrozen)}, nil
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// Less reports whether a is scheduled before b: the higher priority first; then the earlier turn; then the earlier
// creation minus lead, where lead grows from 0 to 10 minutes with the runtime of a batch pod and with the (memory, CPU)
// size class of a service; then the earlier in the queue; then the lesser name.
//
// The turn of a new pod is its creation minus lead. Among pods created together that means: batch pods by runtime
// descending, services by memory and CPU descending, then age (HTAS, algorithms 1 and 2). Among others age counts as
// well, so that no stream of large pods starves a small one.
//
// The turn of a pod that has failed is the end of the retryWindow in which it failed last. So, as in the stock order,
// it never precedes a pod that was created after that failure, and a backlog of unschedulable pods starves no other
// pod.
//
// The key of a pod never changes while it is in the queue's heap: kube-scheduler counts an attempt after it has taken
// the pod out, and sets the timestamp and the plugins that rejected the pod before it puts the pod back. Cost: O(1).
func (p *Plugin) Less(a, b waiting) bool {
	if c := cmp.Compare(priorityOf(b), priorityOf(a)); c != 0 {
		return c < 0
	}
	if c := p.keyOf(a).compare(p.keyOf(b)); c != 0 {
		return c < 0
	}
	if c := a.GetTimestamp().Compare(b.GetTimestamp()); c != 0 {
		return c < 0
	}
	return nameOf(a).less(nameOf(b))
}

// key orders pods of one priority.
type key struct {
	turn      time.Time
	seniority time.Time // creation minus lead; decides among pods that failed in one window
}

func (k key) compare(other key) int {
	return cmp.Or(k.turn.Compare(other.turn), k.seniority.Compare(other.seniority))
}

// name is the last criterion of the order.
type name struct{ namespace, name string }

func (n name) less(other name) bool {
	return cmp.Or(cmp.Compare(n.namespace, other.namespace), cmp.Compare(n.name, other.name)) < 0
}

// keyOfPod returns the key of a pod in the queue entry info: alone, or in a gang.
func (p *Plugin) keyOfPod(pod fwk.PodInfo, info waiting) key {
	created, lead := pod.GetPod().CreationTimestamp.Time, p.lead(pod)
	// Without the monotonic clock reading, which creation times do not have: comparing some times by one clock and some
	// by the other is not a consistent order.
	queued := info.GetTimestamp().Round(0)
	if failed(info) {
		return key{turn: queued.Truncate(retryWindow).Add(retryWindow), seniority: created.Add(-lead)}
	}
	if queued.Before(created) { // the API server's clock is ahead of the scheduler's
		created = queued
	}
	return key{turn: created.Add(-lead), seniority: created.Add(-lead)}
}

// failed reports whether the pod was tried without success. A pod whose first attempt was rejected by the one node that
// narrowing proved has not been tried on other nodes yet, and keeps its place; kube-scheduler lists the plugin that
// narrowed among those that rejected the pod.
func failed(info waiting) bool {
	attempts := info.GetAttempts()
	return attempts > 1 || attempts == 1 && !info.GetUnschedulablePlugins().HasAny(narrowing.BestFit, narrowing.TimeBin)
}

// lead returns by how much the pod counts as created earlier than it was.
func (p *Plugin) lead(info fwk.PodInfo) time.Duration {
	pod := info.GetPod()
	if of, _ := class.OfPod(pod); of == class.Batch {
		return leadOfRuntime(p.runtime(pod))
	}
	r := info.CalculateResource().Resource
	return leadOfSize(r.GetMemory(), r.GetMilliCPU())
}

// leadOfRuntime returns maxLead · t / (t + halfLead): strictly increasing in t, steepest for short runtimes, always
// below maxLead.
func leadOfRuntime(t time.Duration) time.Duration {
	return time.Duration(float64(maxLead) * (float64(t) / (float64(t) + float64(halfLead))))
}

// leadOfSize spreads the size classes evenly over maxLead, memory before CPU.
func leadOfSize(memoryBytes, milliCPU int64) time.Duration {
	rank := sizeClass(memoryBytes, memoryFloor)*sizeClasses + sizeClass(milliCPU, milliCPUFloor)
	return maxLead / (sizeClasses * sizeClasses) * time.Duration(rank)
}

// sizeClass returns 0 for amounts below floor, then one more for each doubling, up to sizeClasses - 1.
func sizeClass(amount, floor int64) int {
	if amount < floor {
		return 0
	}
	return min(bits.Len64(uint64(amount/floor)), sizeClasses-1)
}

func (p *Plugin) runtime(pod *corev1.Pod) time.Duration {
	if d, ok, _ := runtimes.Declared(pod); ok {
		return d
	}
	if pod.Annotations[v1alpha1.AnnotationCategory] == "" {
		return runtimes.Default
	}
	if d, ok := p.frozen.Get(pod.UID); ok {
		return d.(time.Duration)
	}
	d := runtimes.EstimateOf(pod, p.learner, runtimes.Default).Runtime
	p.frozen.Add(pod.UID, d)
	return d
}
