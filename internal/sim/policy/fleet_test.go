package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/scenario"
	"supercargo.dev/supercargo/internal/sim"
	"supercargo.dev/supercargo/manifests"
)

const gi = int64(1) << 30

var minutely = &scenario.Scenario{ScalingInterval: 5 * time.Minute, SchedulingInterval: 20 * time.Second, BillingPeriod: time.Minute, MaxNodes: 10}

// fleetState is a cluster with medium machines, each with the pods given.
func fleetState(at time.Duration, pending []cluster.Pod, nodes ...cluster.Node) *cluster.State {
	return &cluster.State{
		Flavors: []cluster.Flavor{
			{Name: "medium", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 8 * gi}, MaxPods: 110, Arch: "amd64", MicroDollarsPerHour: 137_100},
			{Name: "small", Size: packing.Size{MilliCPU: 1000, MemoryBytes: 2 * gi}, MaxPods: 110, Arch: "amd64", MicroDollarsPerHour: 34_400},
		},
		Nodes: nodes, Pending: pending, MaxNodes: 10, Lag: 150 * time.Second, Release: 5 * time.Second, BillingPeriod: time.Minute,
		Migration:       cluster.DefaultMigration,
		ScalingInterval: 5 * time.Minute, SchedulingInterval: 20 * time.Second,
	}
}

func mediumNode(name string, phase cluster.Phase, pods ...cluster.Pod) cluster.Node {
	return cluster.Node{
		Name: name, Flavor: "medium", Class: class.Any, Capacity: packing.Size{MilliCPU: 2000, MemoryBytes: 8 * gi}, MaxPods: 110, Arch: "amd64",
		MicroDollarsPerHour: 137_100, Phase: phase, Pods: pods, Age: time.Hour,
	}
}

func waitingJob(name string, memory int64, waited time.Duration) cluster.Pod {
	return cluster.Pod{
		Item: packing.Item{Name: name, Size: packing.Size{MilliCPU: 500, MemoryBytes: memory}, Runtime: 20 * time.Minute}, Class: class.Batch, Waited: waited,
	}
}

func TestAFleetInASimulationHasTheDefaultsOfItsDefinition(t *testing.T) {
	t.Parallel()
	got := defaultFleet()
	if got.Class != v1alpha1.FleetAny || got.Mode != v1alpha1.FleetAct || got.Scaling.BatchIdle.Duration != time.Second ||
		got.Scaling.BatchMax.Duration != 10*time.Second || got.Scaling.Interval.Duration != time.Minute || got.Consolidation.MaxUnavailable != "10%" ||
		got.Consolidation.After.Duration != 0 || got.Consolidation.Horizon.Duration != time.Hour || got.Pricing.BillingPeriod.Duration != time.Minute {
		t.Errorf("the defaults are %+v", got)
	}
	got.Class = v1alpha1.FleetBatch
	if defaultFleet().Class != v1alpha1.FleetAny {
		t.Error("a fleet that is changed changes the defaults")
	}
}

func TestAFleetInASimulationRunsUnderTheInstalledProfile(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(string(manifests.SchedulerConfig), string(byName(t, "supercargo").Scheduler(minutely))); diff != "" {
		t.Errorf("the scheduler's configuration (-installed +got):\n%s", diff)
	}
}

func TestAFleetInASimulationGathersPodsAsAnInstalledOneDoes(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		name   string
		waited []time.Duration
		wait   time.Duration // 0: it buys
	}{
		{"one that has just come", []time.Duration{0}, s},
		{"one that came a second ago", []time.Duration{s}, 0},
		{"another came since", []time.Duration{3 * s, s / 2}, s / 2},
		{"none waits for others without end", []time.Duration{10 * s, 0}, 0},
		{"nor for longer than is left", []time.Duration{9*s + s/2, 0}, s / 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var pending []cluster.Pod
			for i, w := range tc.waited {
				pending = append(pending, waitingJob(fmt.Sprint("p", i), gi, w))
			}
			plan := supercargo(minutely).Decide(sim.Epoch.Add(time.Hour), fleetState(time.Hour, pending))
			if bought := len(plan.Buy) > 0; bought != (tc.wait == 0) || !bought && plan.Wake != tc.wait {
				t.Errorf("it buys %v and wants to be asked after %v, want a wait of %v", plan.Buy, plan.Wake, tc.wait)
			}
		})
	}
}

func TestAFleetInASimulationBuysOnceForAPod(t *testing.T) {
	t.Parallel()
	c := supercargo(minutely)
	now := sim.Epoch.Add(time.Hour)
	if plan := c.Decide(now, fleetState(0, []cluster.Pod{waitingJob("p", gi, time.Second)})); len(plan.Buy) != 1 || plan.Buy[0].Flavor != "small" {
		t.Fatalf("it buys %+v, want a small machine", plan.Buy)
	}
	// The machine is on its way, and others have been put there in the forecast's order.
	ordered := mediumNode("small-0", cluster.Ordered)
	ordered.Capacity, ordered.Due = packing.Size{MilliCPU: 1000, MemoryBytes: 2 * gi}, 149*time.Second
	both := []cluster.Pod{waitingJob("a-longer", 2*gi, 2*time.Second), waitingJob("p", gi, 2*time.Second)}
	both[0].Runtime = time.Hour
	plan := c.Decide(now.Add(time.Second), fleetState(0, both, ordered))
	if len(plan.Buy) != 1 || len(plan.Buy[0].Pods) != 1 || plan.Buy[0].Pods[0] != "a-longer" {
		t.Errorf("it buys %+v, want one for the other pod", plan.Buy)
	}
}

func TestAFleetInASimulationKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	s := fleetState(0, []cluster.Pod{waitingJob("p", gi, time.Minute)}, mediumNode("a", cluster.Ready, waitingJob("x", 8*gi, 0)))
	s.MaxNodes = 1
	if plan := supercargo(minutely).Decide(sim.Epoch.Add(time.Hour), s); len(plan.Buy) > 0 {
		t.Errorf("it buys %+v beyond the limit", plan.Buy)
	}
}

// TestTheMachinesOfAnExchangeAreEmptiedOnceThoseInTheirPlaceAreReady follows one exchange.
func TestTheMachinesOfAnExchangeAreEmptiedOnceThoseInTheirPlaceAreReady(t *testing.T) {
	t.Parallel()
	f := newFleet(minutely, defaultFleet(), cluster.WaysOf(cluster.Migrate))
	now := sim.Epoch.Add(time.Hour)
	var plan cluster.Plan
	f.exchange(now, &cluster.Exchange{Nodes: []string{"a"}, Buy: []cluster.Purchase{{Flavor: "small"}}}, &plan)
	if len(plan.Buy) != 1 || len(plan.Drains) != 1 || plan.Drains[0].Method != cluster.Wait {
		t.Fatalf("the exchange is begun by %+v", plan)
	}
	p := waitingJob("p", gi, 0)
	p.Ways = cluster.WaysOf(cluster.Migrate)
	closed := mediumNode("a", cluster.Leaving, p)
	small := mediumNode("b", cluster.Ordered)
	proceed := func(at time.Duration, phase cluster.Phase, free int64) cluster.Plan {
		var plan cluster.Plan
		small.Phase, small.Capacity.MemoryBytes = phase, free
		f.proceed(now.Add(at), fleetState(0, nil, closed, small), &plan)
		return plan
	}
	if plan := proceed(time.Minute, cluster.Ordered, gi); len(plan.Transfers)+len(plan.Reopen) > 0 {
		t.Errorf("while the machine is on its way: %+v", plan)
	}
	if plan := proceed(2*time.Minute, cluster.Ready, gi-1); len(plan.Transfers)+len(plan.Reopen) > 0 {
		t.Errorf("without room for its pods: %+v", plan)
	}
	want := []cluster.Transfer{{Pod: "p", From: "a", To: "b", Method: cluster.Migrate, Reason: "its machine is exchanged for a cheaper one"}}
	if diff := cmp.Diff(want, proceed(3*time.Minute, cluster.Ready, gi).Transfers); diff != "" {
		t.Errorf("with room (-want +got):\n%s", diff)
	}
	f.exchanged["a"] = now
	if plan := proceed(time.Hour, cluster.Ready, 0); len(plan.Reopen) != 1 || len(f.exchanged) > 0 {
		t.Errorf("when its pods do not leave in time: %+v", plan)
	}
}
