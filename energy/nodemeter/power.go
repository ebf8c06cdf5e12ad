package nodemeter

import (
	"slices"
	"strings"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
)

// powerOf returns the power model in the profile of a machine type; nil if there is no valid one.
// Of several, the first by name is used.
func powerOf(objects []v1alpha1.MachineProfile, machineType string) *energy.Model {
	slices.SortFunc(objects, func(a, b v1alpha1.MachineProfile) int { return strings.Compare(a.Name, b.Name) })
	for i := range objects {
		o := &objects[i]
		if machineType == "" || o.Spec.MachineType != machineType || o.Spec.Power == nil {
			continue
		}
		if model, err := profile.PowerOf(o); err == nil {
			return &model
		}
	}
	return nil
}
