package fleetobserve

import (
	"fmt"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Stock is a fleet with its machines.
type Stock struct {
	Fleet *v1alpha1.NodeFleet
	// Class is the class of pods that it is for.
	Class class.Class
	// Inventory are its flavors and machines. What must not be bought has a problem.
	Inventory *provider.Inventory
	// Prices are those of its flavors, by name.
	Prices map[string]Price

	// traits are what the machines of each flavor have shown; see observer.readTraits.
	traits map[string]traits
}

// Flavor returns a flavor of the fleet; nil if it has none of that name.
func (s *Stock) Flavor(name string) *provider.Flavor {
	flavors := s.Inventory.Flavors
	at := slices.IndexFunc(flavors, func(f provider.Flavor) bool { return f.Name == name })
	if at < 0 {
		return nil
	}
	return &flavors[at]
}

// StockOf returns a fleet with the machines that its provider has listed. It limits the flavors of the inventory, which it
// keeps and changes, to what their machines were seen to hold.
func StockOf(f *v1alpha1.NodeFleet, inventory *provider.Inventory) *Stock {
	limitToSeen(f, inventory)
	return &Stock{Fleet: f, Class: fleetdecide.ClassOf(f.Spec.Class), Inventory: inventory}
}

// RemoveClaimed removes from each fleet the MachineDeployments that an older fleet has. all are ordered by seniority.
func RemoveClaimed(all []*Stock) {
	claimed := map[string]string{}
	for _, s := range all {
		removeClaimed(s, claimed)
	}
}

// removeClaimed removes from a fleet what is claimed, and claims the rest: it maps MachineDeployments to fleets. Flavors that are not MachineDeployments
// belong to no fleet.
func removeClaimed(s *Stock, claimed map[string]string) {
	if s.Fleet.Spec.ClusterAPI == nil {
		return
	}
	theirs := map[string]bool{}
	flavors := s.Inventory.Flavors
	for i := range flavors {
		key := s.Fleet.Spec.ClusterAPI.Namespace + "/" + flavors[i].Name
		if owner, ok := claimed[key]; ok {
			flavors[i] = provider.Flavor{Name: flavors[i].Name, Problem: fmt.Sprintf("it belongs to NodeFleet %s", owner)}
			theirs[flavors[i].Name] = true
		} else {
			claimed[key] = s.Fleet.Name
		}
	}
	s.Inventory.Machines = slices.DeleteFunc(s.Inventory.Machines, func(m provider.Machine) bool { return theirs[m.Flavor] })
}
