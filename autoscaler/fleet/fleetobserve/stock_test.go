package fleetobserve

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/autoscaler/provider"
)

func TestAMachineDeploymentBelongsToTheFirstFleetThatNamesIt(t *testing.T) {
	holding := func(fleet, namespace string, flavors ...string) *Stock {
		f := fleetNamed(fleet)
		f.Spec.ClusterAPI.Namespace = namespace
		s := &Stock{Fleet: f, Inventory: &provider.Inventory{}}
		for _, name := range flavors {
			s.Inventory.Flavors = append(s.Inventory.Flavors, provider.Flavor{Name: name, Want: 1})
			s.Inventory.Machines = append(s.Inventory.Machines, provider.Machine{Name: "m-" + name, Flavor: name})
		}
		return s
	}
	first, second, apart := holding("f", "x", "a", "b"), holding("g", "x", "b", "c"), holding("h", "y", "b")
	RemoveClaimed([]*Stock{first, second, apart})
	if got := second.Inventory.Flavors; !strings.Contains(got[0].Problem, "NodeFleet f") || got[0].Want != 0 || got[1].Problem != "" {
		t.Errorf("the second has %+v", got)
	}
	if got := second.Inventory.Machines; len(got) != 1 || got[0].Name != "m-c" {
		t.Errorf("the second has the machines %+v", got)
	}
	for _, s := range []*Stock{first, apart} {
		for _, f := range s.Inventory.Flavors {
			if f.Problem != "" || len(s.Inventory.Machines) != len(s.Inventory.Flavors) {
				t.Errorf("fleet %s: %+v", s.Fleet.Name, f)
			}
		}
	}
}
