package fleet

import (
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/packing"
)

// limitToSeen limits the size of flavors to what the last machine of the same template held. Without it, once that
// machine is gone, a pod that fits only the stated size would have a machine bought, found to be too small, released
// and bought again, without end.
//
// A flavor all of whose machines are leaving counts as unseen: its nodes may already have lost their static pods.
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
