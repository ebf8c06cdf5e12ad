package world

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
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
	size packing.Size
	disk int64 // ephemeral storage in bytes
	// other is a resource besides CPU, memory and ephemeral storage: the first by name, or "" if the pod requests none.
	other corev1.ResourceName
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
	cpu, memory, extended := constraint.Requests(pod)
	r := asked{size: packing.Size{MilliCPU: cpu, MemoryBytes: memory}, disk: extended[corev1.ResourceEphemeralStorage]}
	for name, amount := range extended {
		if amount > 0 && name != corev1.ResourceEphemeralStorage && (r.other == "" || name < r.other) {
			r.other = name
		}
	}
	return r
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

// Requests returns the requests of a pod, and the name of one requested resource other than CPU, memory and ephemeral
// storage, if any.
func Requests(pod *corev1.Pod) (packing.Size, corev1.ResourceName) {
	r := askedOf(pod)
	return r.size, r.other
}
