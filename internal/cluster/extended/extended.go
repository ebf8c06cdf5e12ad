// Package extended says which resources besides CPU and memory a plan considers, and in which slot of [packing.Extended]
// each of them is: GPUs, other devices and huge pages. Ephemeral storage, volumes and the number of pods are not among them;
// they are constraints of pods and hosts.
//
// Slots are few, so that sizes stay small. They are given to the resources that pods request, and resources that nobody
// requests need none. A pod that requests a resource without a slot is not planned for.
package extended

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/internal/packing"
)

// Names are the names of resources by slot; an empty one is a free slot. Names are compared with ==.
type Names [packing.Slots]corev1.ResourceName

// With returns the names that the requested resources get after these names: a resource keeps its slot, a new one gets a free
// slot, and when there are no free slots, one whose resource is no longer requested. GPUs come first, then others by name.
// Those that get no slot are left out.
func (n Names) With(requested map[corev1.ResourceName]bool) Names {
	for _, name := range slices.SortedFunc(maps.Keys(requested), before) {
		if slices.Contains(n[:], name) || name == "" {
			continue
		}
		at := slices.Index(n[:], "")
		if at < 0 {
			at = slices.IndexFunc(n[:], func(old corev1.ResourceName) bool { return !requested[old] })
		}
		if at < 0 {
			break
		}
		n[at] = name
	}
	return n
}

func before(a, b corev1.ResourceName) int {
	if IsGPU(a) != IsGPU(b) {
		if IsGPU(a) {
			return -1
		}
		return 1
	}
	return cmp.Compare(a, b)
}

// MilliGPU is a resource of which pods request thousandths of a GPU, as in the cluster of the openb trace.
const MilliGPU corev1.ResourceName = "alibabacloud.com/gpu-milli"

// Name returns the name of the resource in a slot; without names, what such resources are called.
func (n *Names) Name(slot int) string {
	if n == nil || n[slot] == "" {
		return "extended resources"
	}
	return string(n[slot])
}

// Considered reports whether a resource can have a slot.
func Considered(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage, corev1.ResourceStorage:
		return false
	}
	return !strings.HasPrefix(string(name), corev1.ResourceAttachableVolumesPrefix)
}

// IsGPU reports whether a resource is GPUs, parts of them or shares of them, by its name: nvidia.com/gpu,
// nvidia.com/gpu.shared, nvidia.com/mig-1g.5gb, amd.com/gpu, gpu.intel.com/xe.
func IsGPU(name corev1.ResourceName) bool {
	domain, of, qualified := strings.Cut(string(name), "/")
	return qualified && (strings.HasPrefix(of, "gpu") || strings.HasPrefix(domain, "gpu.") || domain == "nvidia.com" && strings.HasPrefix(of, "mig-"))
}

// Requests returns amounts that pods request by slot, rounded up to the unit of the slot. missing is a resource of which
// more than nothing is requested and that has no slot, or of which more is requested than a slot can hold: the first by name, or "".
func (n Names) Requests(amounts map[corev1.ResourceName]int64) (found packing.Extended, missing corev1.ResourceName) {
	for name, amount := range amounts {
		if amount <= 0 || !Considered(name) {
			continue
		}
		at, unit := slices.Index(n[:], name), unitOf(name)
		if units := (amount-1)/unit + 1; at >= 0 && units <= math.MaxInt16 {
			found = found.With(at, int16(units))
		} else if missing == "" || name < missing {
			missing = name
		}
	}
	return found, missing
}

// Capacity returns amounts that a node has by slot, rounded down to the unit of the slot and at most what it can hold.
// Resources without a slot are left out.
func (n Names) Capacity(amounts map[corev1.ResourceName]int64) (found packing.Extended) {
	for at, name := range n {
		if name != "" {
			found = found.With(at, int16(min(max(0, amounts[name]/unitOf(name)), math.MaxInt16)))
		}
	}
	return found
}

// GPUs are the GPUs of a machine.
type GPUs struct {
	// Any reports whether it has any, Amounts how many by slot: no pod requests those without a slot.
	Any     bool
	Amounts packing.Extended
}

// GPUs returns the GPUs among the amounts that a machine has.
func (n Names) GPUs(amounts map[corev1.ResourceName]int64) GPUs {
	found := GPUs{Amounts: n.Capacity(amounts)}
	for at, name := range n {
		if !IsGPU(name) {
			found.Amounts = found.Amounts.With(at, 0)
		}
	}
	for name, amount := range amounts {
		found.Any = found.Any || amount > 0 && IsGPU(name)
	}
	return found
}

// unitOf returns the unit in which amounts of a resource are counted: huge pages by page.
func unitOf(name corev1.ResourceName) int64 {
	size, pages := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !pages {
		return 1
	}
	q, err := resource.ParseQuantity(size)
	if err != nil {
		return 1
	}
	return max(1, q.Value())
}

// List returns amounts as a list of resources; nil if there are none.
func List(amounts map[corev1.ResourceName]int64) corev1.ResourceList {
	if len(amounts) == 0 {
		return nil
	}
	list := make(corev1.ResourceList, len(amounts))
	for name, amount := range amounts {
		format := resource.DecimalSI
		if unitOf(name) > 1 {
			format = resource.BinarySI
		}
		list[name] = *resource.NewQuantity(amount, format)
	}
	return list
}

// Amounts returns the considered resources of a list of which it has more than nothing, rounded down to integers; nil if
// there are none.
func Amounts(list corev1.ResourceList) map[corev1.ResourceName]int64 {
	var all map[corev1.ResourceName]int64
	for name := range list {
		q := list[name]
		if !Considered(name) || q.Sign() <= 0 {
			continue
		}
		if all == nil {
			all = map[corev1.ResourceName]int64{}
		}
		all[name] = q.Value()
	}
	return all
}
