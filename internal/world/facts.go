package world

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// Facts remembers between observations what can be computed from a pod alone, by UID and resource version: of many
// pods, few change from one round to the next. It is right as long as pods with the same UID and resource version are equal, which
// holds for objects of one API server that nobody changes in place. A pod without either is not remembered.
//
// The zero value remembers nothing yet. It is safe for concurrent use. It has at most two and a quarter entries for each
// pod of the last observed world.
type Facts struct {
	mu    sync.Mutex
	known map[types.UID]*facts
	names extended.Names
}

// facts are what can be computed from a pod alone. They are shared between views: nobody may change them.
type facts struct {
	version string // the resource version of the pod
	asked
	name, controller string
	images           []string
	class            class.Class
	everyNode        bool
}

// asked is what a pod requests.
type asked struct {
	size packing.Size // CPU and memory: in which slots the extended resources are differs between views
	disk int64        // ephemeral storage in bytes
	// extended are the other resources; nil if there are none.
	extended map[corev1.ResourceName]int64
}

// factsOf computes the facts of a pod.
func factsOf(pod *corev1.Pod) *facts {
	kind, _ := class.OfPod(pod) // an invalid label counts as no label
	return &facts{
		version: pod.ResourceVersion, asked: askedOf(pod), name: PodName(pod), controller: Controller(pod), images: imagesOf(pod),
		class: kind, everyNode: class.EveryNode(pod),
	}
}

func askedOf(pod *corev1.Pod) asked {
	cpu, memory, others := constraint.Requests(pod)
	r := asked{size: packing.Size{MilliCPU: cpu, MemoryBytes: memory}, disk: others[corev1.ResourceEphemeralStorage]}
	for name, amount := range others {
		if amount > 0 && extended.Considered(name) {
			if r.extended == nil {
				r.extended = map[corev1.ResourceName]int64{}
			}
			r.extended[name] = amount
		}
	}
	return r
}

// sized returns what is requested with the extended resources in their slots, and one that has no slot, or "".
func (a *asked) sized(names extended.Names) (packing.Size, corev1.ResourceName) {
	size := a.size
	if len(a.extended) == 0 {
		return size, ""
	}
	var missing corev1.ResourceName
	size.Extended, missing = names.Requests(a.extended)
	return size, missing
}

// asks returns what a pod requests, and an extended resource that it requests and that plans do not consider, or "".
func (v *View) asks(pod *corev1.Pod) (packing.Size, corev1.ResourceName) {
	return v.facts(pod).sized(v.names)
}

// size returns what a pod requests of the resources that plans consider.
func (v *View) size(pod *corev1.Pod) packing.Size {
	size, _ := v.asks(pod)
	return size
}

// readNames gives slots to the extended resources that pods request.
func (v *View) readNames() {
	requested := map[corev1.ResourceName]bool{}
	for _, pod := range v.Pods {
		for name := range v.facts(pod).extended {
			requested[name] = true
		}
	}
	v.names = v.Facts.named(requested)
	v.shared = new(v.names)
}

// named returns the slots of the requested resources. A resource keeps its slot from one observation to the next, so that
// sizes that are remembered stay right.
func (f *Facts) named(requested map[corev1.ResourceName]bool) extended.Names {
	if f == nil {
		return extended.Names{}.With(requested)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = f.names.With(requested)
	return f.names
}

// Extended returns the names of the extended resources that plans consider. They do not keep the view in memory.
func (v *View) Extended() *extended.Names { return v.shared }

// Allocatable returns what pods can use of a node.
func (v *View) Allocatable(node *corev1.Node) packing.Size {
	of := node.Status.Allocatable
	return packing.Size{MilliCPU: of.Cpu().MilliValue(), MemoryBytes: of.Memory().Value(), Extended: v.names.Capacity(extended.Amounts(of))}
}

// of returns the facts of a pod that has a UID and a resource version.
func (f *Facts) of(pod *corev1.Pod) *facts {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.known[pod.UID]
	if known == nil || known.version != pod.ResourceVersion {
		known = factsOf(pod)
		if f.known == nil {
			f.known = map[types.UID]*facts{}
		}
		f.known[pod.UID] = known
	}
	return known
}

// prune forgets the pods that are not among the given ones, once there are many. nil remembers nothing.
func (f *Facts) prune(pods []*corev1.Pod) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) <= len(pods)+len(pods)/4 {
		return
	}
	there := make(map[types.UID]bool, len(pods))
	for i := range pods {
		there[pods[i].UID] = true
	}
	maps.DeleteFunc(f.known, func(uid types.UID, _ *facts) bool { return !there[uid] })
}

// facts returns the facts of a pod of the world, or of a copy of one that differs in annotations, volumes and affinity
// only. A round asks several times for each.
func (v *View) facts(pod *corev1.Pod) *facts {
	if v.Facts != nil && pod.UID != "" && pod.ResourceVersion != "" {
		return v.Facts.of(pod)
	}
	known := v.known[pod]
	if known == nil {
		known = factsOf(pod)
		v.known[pod] = known
	}
	return known
}

// Requests returns the requests of a pod for CPU and memory, and the name of one requested extended resource, the first by
// name, if any.
func Requests(pod *corev1.Pod) (packing.Size, corev1.ResourceName) {
	r := askedOf(pod)
	return r.sized(extended.Names{})
}
