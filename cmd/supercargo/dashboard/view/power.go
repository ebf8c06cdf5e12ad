package view

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/profile"
)

// power knows what machines draw: first by MachineProfiles, then by the table that the program
// carries.
type power struct {
	stated profile.StatedPower
	table  *energy.Table
}

func newPower(profiles []*v1alpha1.MachineProfile) power {
	p := power{stated: profile.StatedPower{}, table: energy.BuiltIn()}
	for _, o := range profiles {
		// One that is not valid says so in its own status, and counts as none.
		_ = p.stated.Add(o)
	}
	return p
}

// of returns what a node draws if pods use as much CPU as they request; nil if its machine type is
// not known.
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
