package fleetobserve

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/extended"
)

// SeenMachine returns what pods can use of an existing machine of a flavor. What static pods use is known only while
// there is a machine.
func (o *Observation) SeenMachine(f *provider.Flavor) *v1alpha1.SeenMachine {
	t := o.Self.traits[f.Name]
	has := t.published
	if row := RowsOf(o.Self.Fleet)[f.Name]; !t.settled && row != nil && row.Seen != nil && row.Seen.Template == f.Template {
		has = withMissing(has, extended.Amounts(row.Seen.ExtendedResources)) // the node may still be starting
	}
	return &v1alpha1.SeenMachine{
		Template: f.Template, MaxPods: max(0, f.MaxPods-t.statics),
		CPU:    *resource.NewMilliQuantity(max(0, f.Size.MilliCPU-t.static.MilliCPU), resource.DecimalSI),
		Memory: *resource.NewQuantity(max(0, f.Size.MemoryBytes-t.static.MemoryBytes), resource.BinarySI),

		ExtendedResources: extended.List(has),
	}
}

// LowerBound returns the least price, in micro-dollars per hour, of machines of the fleet's flavors that hold all its pods
// but the expendable ones.
func (o *Observation) LowerBound() int64 {
	state := &o.State
	var all []*cluster.Pod
	add := func(pods []cluster.Pod) {
		for i := range pods {
			if !pods[i].Expendable {
				all = append(all, &pods[i])
			}
		}
	}
	for i := range state.Nodes {
		if _, is := o.Own[state.Nodes[i].Name]; is {
			add(state.Nodes[i].Pods)
		}
	}
	add(state.Pending)
	return fleetdecide.LowerBound(all, state.Flavors)
}

// Unidentified describes the machines whose nodes should have been identified by now.
func (o *Observation) Unidentified() (all []string) {
	for _, m := range o.Self.Inventory.Machines {
		f := o.Self.Flavor(m.Flavor)
		if m.Unidentified != "" && !m.Leaving && f != nil && o.Now.Sub(m.Ordered) >= joinTimeout(o.Self.Fleet, f) {
			all = append(all, m.Unidentified)
		}
	}
	return all
}

// Unusable describes the flavors that users must repair: those that they named, and those with machines that must not be
// changed. A flavor has the same problem in all zones.
func (o *Observation) Unusable() (all []string) {
	var problems []string
	for i := range o.Self.Inventory.Flavors {
		f := &o.Self.Inventory.Flavors[i]
		if held := f.Held != "" && o.Ordered[f.Name] > 0; (f.Named || held) && f.Problem != "" && !slices.Contains(problems, f.Problem) {
			problems = append(problems, f.Problem)
			all = append(all, f.Name+": "+f.Problem)
		}
	}
	return all
}
