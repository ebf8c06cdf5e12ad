package status

import (
	"cmp"
	"math"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
)

// power is the power that MachineProfiles state of their machine types. Others have that of the built-in table.
type power struct{ profile.StatedPower }

func newPower(profiles []*v1alpha1.MachineProfile) power {
	p := power{profile.StatedPower{}}
	for _, o := range profiles {
		// An invalid profile reports that in its own status, and is ignored here.
		_ = p.Add(o)
	}
	return p
}

// of returns the power of a node if its pods use as much CPU as they request; nil if its machine type
// is unknown.
func (p power) of(node *corev1.Node, requestedMilliCPU int64) *float64 {
	model, known := p.OfType(score.MachineType(node.Labels))
	if !known {
		return nil
	}
	capacity := cmp.Or(node.Status.Capacity.Cpu().MilliValue(), node.Status.Allocatable.Cpu().MilliValue())
	if capacity <= 0 {
		return nil
	}
	return new(float64(model.At(min(1, float64(requestedMilliCPU)/float64(capacity)))))
}

// ofBill returns the power of the machines of a bill if pods request a share of their CPU; nil if there are none, or one
// of their types is unknown.
func (p power) ofBill(b *audit.Bill, load float64) *float64 {
	if len(b.Machines) == 0 {
		return nil
	}
	var sum energy.Watts
	for _, c := range b.Machines {
		model, known := p.OfType(c.InstanceType)
		if !known {
			return nil
		}
		sum += energy.Watts(c.Count) * model.At(min(1, load))
	}
	return new(float64(sum))
}

// least returns a lower bound of the power of any machines of known types at which pods use the CPU that they request,
// however they are placed: each milli-CPU draws at least what it does on the machine that is best loaded. It is a bound
// of ofBill, which also counts the CPU of a machine without that of DaemonSet pods. sizes is the
// CPU of the largest machine of each type. It is nil if no type is known, or nothing is requested.
func (p power) least(requestedMilliCPU int64, sizes map[string]int64) *float64 {
	each := math.Inf(1)
	for kind, size := range sizes {
		if model, known := p.OfType(kind); known && size > 0 {
			each = min(each, float64(model.LeastPerUtilization())/float64(size))
		}
	}
	if math.IsInf(each, 1) || requestedMilliCPU <= 0 {
		return nil
	}
	return new(each * float64(requestedMilliCPU))
}
