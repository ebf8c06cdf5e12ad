package view

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/profile"
)

// power returns the power of machines: from MachineProfiles, or else from the built-in table.
type power struct {
	stated profile.StatedPower
	table  *energy.Table
}

func newPower(profiles []*v1alpha1.MachineProfile) power {
	p := power{stated: profile.StatedPower{}, table: energy.BuiltIn()}
	for _, o := range profiles {
		// An invalid profile reports that in its own status, and is ignored here.
		_ = p.stated.Add(o)
	}
	return p
}

// of returns the power of a node if its pods use as much CPU as they request; nil if its machine type
// is unknown.
func (p power) of(node *corev1.Node, requestedMilliCPU int64) *float64 {
	kind := cmp.Or(node.Labels[v1alpha1.LabelMachineType], node.Labels[corev1.LabelInstanceTypeStable])
	model, known := p.stated[kind]
	if !known {
		if model, known = p.table.MachineType(kind); !known {
			return nil
		}
	}
	capacity := cmp.Or(node.Status.Capacity.Cpu().MilliValue(), node.Status.Allocatable.Cpu().MilliValue())
	if capacity <= 0 {
		return nil
	}
	return new(float64(model.At(min(1, float64(requestedMilliCPU)/float64(capacity)))))
}
