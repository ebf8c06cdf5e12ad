package world

import (
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// asked is what a pod requests.
type asked struct {
	size packing.Size
	disk int64 // ephemeral storage in bytes
	// extended is a resource besides CPU and memory, and other one besides ephemeral storage too: the first by name, or ""
	// if the pod requests none.
	extended, other corev1.ResourceName
}

func askedOf(pod *corev1.Pod) asked {
	cpu, memory, extended := constraint.Requests(pod)
	r := asked{size: packing.Size{MilliCPU: cpu, MemoryBytes: memory}, disk: extended[corev1.ResourceEphemeralStorage]}
	first := func(name, than corev1.ResourceName) corev1.ResourceName {
		if than == "" || name < than {
			return name
		}
		return than
	}
	for name, amount := range extended {
		if amount <= 0 {
			continue
		}
		r.extended = first(name, r.extended)
		if name != corev1.ResourceEphemeralStorage {
			r.other = first(name, r.other)
		}
	}
	return r
}

// requests returns what a pod of the world requests. A round asks several times for each.
func (v *View) requests(pod *corev1.Pod) asked {
	if known, is := v.requested[pod]; is {
		return known
	}
	r := askedOf(pod)
	v.requested[pod] = r
	return r
}

// Requests returns the requests of a pod, and the name of one requested resource other than CPU, memory and ephemeral
// storage, if any.
func Requests(pod *corev1.Pod) (packing.Size, corev1.ResourceName) {
	r := askedOf(pod)
	return r.size, r.other
}
