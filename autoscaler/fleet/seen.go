package fleet

import (
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/packing"
)

// limitToSeen lowers what flavors promise to what the last machine of the same template
// was seen to hold. Were a promise trusted again as soon as the last machine has gone,
// a pod that fits nothing but the promise would have a machine bought, found to be too
// small, released and bought again, without end.
//
// A flavor all of whose machines are leaving counts as unseen: its nodes may have lost their
// static pods already.
func limitToSeen(fleet *v1alpha1.NodeFleet, inventory *provider.Inventory) {
	for i := range inventory.Flavors {
		f := &inventory.Flavors[i]
		stays := func(m provider.Machine) bool { return m.Flavor == f.Name && m.Node != "" && !m.Leaving }
		f.Seen = f.Seen && slices.ContainsFunc(inventory.Machines, stays)
		at := slices.IndexFunc(fleet.Status.Flavors, func(s v1alpha1.FlavorStatus) bool { return s.Name == f.Name })
		if f.Seen || at < 0 {
			continue
		}
		if seen := fleet.Status.Flavors[at].Seen; seen != nil && seen.Template == f.Template {
			f.Size = packing.Size{MilliCPU: min(f.Size.MilliCPU, seen.CPU.MilliValue()), MemoryBytes: min(f.Size.MemoryBytes, seen.Memory.Value())}
			f.MaxPods = min(f.MaxPods, seen.MaxPods)
		}
	}
}
