package policy

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const gi = int64(1) << 30

var minutely = &scenario.Scenario{ScalingInterval: 5 * time.Minute, SchedulingInterval: 20 * time.Second, BillingPeriod: time.Minute, MaxNodes: 10}

// fleetState returns a cluster with medium machines, each with the given pods.
func fleetState(at time.Duration, pending []cluster.Pod, nodes ...cluster.Node) *cluster.State {
	return &cluster.State{
		Flavors: []cluster.Flavor{
			{Name: "medium", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 8 * gi}, MaxPods: new(int64(110)), Arch: "amd64", MicroDollarsPerHour: 137_100},
			{Name: "small", Size: packing.Size{MilliCPU: 1000, MemoryBytes: 2 * gi}, MaxPods: new(int64(110)), Arch: "amd64", MicroDollarsPerHour: 34_400},
		},
		Nodes: nodes, Pending: pending, MaxNodes: 10, Lag: 150 * time.Second, Release: 5 * time.Second, BillingPeriod: time.Minute,
		Migration:       cluster.DefaultMigration,
		ScalingInterval: 5 * time.Minute, SchedulingInterval: 20 * time.Second,
	}
}

func mediumNode(name string, phase cluster.Phase, pods ...cluster.Pod) cluster.Node {
	return cluster.Node{
		Name: name, Flavor: "medium", Class: class.Any, Capacity: packing.Size{MilliCPU: 2000, MemoryBytes: 8 * gi}, MaxPods: new(int64(110)), Arch: "amd64",
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
		got.Consolidation.Policy != v1alpha1.ConsolidateWhenUnderUsed || got.Consolidation.EvictServices != v1alpha1.EvictServicesOptOut ||
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
	// The machine is on order, and other pods have been placed there in the order of the forecast.
	ordered := mediumNode("small-0", cluster.Ordered)
	ordered.Capacity, ordered.Due = packing.Size{MilliCPU: 1000, MemoryBytes: 2 * gi}, 149*time.Second
	both := []cluster.Pod{waitingJob("a-longer", 2*gi, 2*time.Second), waitingJob("p", gi, 2*time.Second)}
	both[0].Runtime = time.Hour
	plan := c.Decide(now.Add(time.Second), fleetState(0, both, ordered))
	if len(plan.Buy) != 1 || len(plan.Buy[0].Pods) != 1 || plan.Buy[0].Pods[0] != "a-longer" {
		t.Errorf("it buys %+v, want one for the other pod", plan.Buy)
	}
}

// inASecond returns a scenario with exact billing, in which machines are released at once.
func inASecond(most int64) *scenario.Scenario {
	sc := *minutely
	sc.BillingPeriod, sc.MaxNodes, sc.AcquisitionLag = 0, most, scenario.Lag{Mean: 150 * time.Second}
	return &sc
}

func TestAFleetInASimulationKeepsToTheLimitUntilReleasedMachinesAreGone(t *testing.T) {
	t.Parallel()
	c := supercargo(inASecond(2))
	now := sim.Epoch.Add(time.Hour)
	full := mediumNode("a", cluster.Ready, waitingJob("x", 8*gi, 0))
	decide := func(at time.Duration, most int, pending []cluster.Pod, nodes ...cluster.Node) cluster.Plan {
		s := fleetState(0, pending, nodes...)
		s.MaxNodes, s.BillingPeriod = most, 0
		return c.Decide(now.Add(at), s)
	}
	if plan := decide(0, 2, nil, full, mediumNode("b", cluster.Ready)); len(plan.Drains) != 1 || plan.Drains[0].Node != "b" || !plan.Drains[0].CordonOnly || len(plan.Release) > 0 {
		t.Fatalf("of an empty machine: %+v, want that it is closed", plan)
	}
	if plan := decide(2*time.Second, 2, nil, full, mediumNode("b", cluster.Leaving)); len(plan.Release) > 0 || plan.Wake != time.Second {
		t.Errorf("two seconds after it was closed: %+v, want that it is checked after another", plan)
	}
	if plan := decide(3*time.Second, 2, nil, full, mediumNode("b", cluster.Leaving)); len(plan.Release) != 1 || plan.Release[0].Node != "b" {
		t.Fatalf("three seconds after it was closed: %+v, want that it is released", plan)
	}
	waits := []cluster.Pod{waitingJob("p", gi, time.Minute)}
	if plan := decide(4*time.Second, 1, waits, full); len(plan.Buy) > 0 {
		t.Errorf("it buys %+v while the machine is leaving, beyond the limit", plan.Buy)
	}
	if plan := decide(10*time.Second, 2, waits, full); len(plan.Buy) != 1 {
		t.Errorf("it buys %+v once the machine has gone, want one", plan.Buy)
	}
}

func TestAFleetInASimulationOpensAClosedMachineThatAPodNeeds(t *testing.T) {
	t.Parallel()
	c := supercargo(inASecond(10))
	now := sim.Epoch.Add(time.Hour)
	s := fleetState(0, nil, mediumNode("a", cluster.Ready))
	s.BillingPeriod = 0
	if plan := c.Decide(now, s); len(plan.Drains) != 1 {
		t.Fatalf("of an empty machine: %+v, want that it is closed", plan)
	}
	plan := c.Decide(now.Add(time.Second), fleetState(0, []cluster.Pod{waitingJob("p", gi, time.Second)}, mediumNode("a", cluster.Leaving)))
	if len(plan.Uncordon) != 1 || plan.Uncordon[0].Node != "a" || len(plan.Buy)+len(plan.Release) > 0 {
		t.Errorf("when a pod waits: %+v, want that it is opened and nothing bought", plan)
	}
}

func TestAFleetInASimulationLearnsHowLongMachinesTake(t *testing.T) {
	t.Parallel()
	f := newFleet(inASecond(10), defaultFleet(), cluster.WaysOf(cluster.Migrate))
	now := sim.Epoch.Add(time.Hour)
	medium := func() fleetdecide.Flavor { return f.flavor(&cluster.Flavor{Name: "medium"}, 0) }
	if got, want := medium(), 2*time.Minute; got.Lag != want || got.Learned {
		t.Errorf("expected before the first machine: %v, learned: %t, want %v, the default", got.Lag, got.Learned, want)
	}
	ordered := mediumNode("medium-0", cluster.Ordered)
	ordered.Due = 150 * time.Second
	busy := mediumNode("medium-0", cluster.Ready, waitingJob("x", gi, 0))
	f.Decide(now, fleetState(0, nil, ordered))
	f.Decide(now.Add(150*time.Second), fleetState(0, nil, busy))
	if got, want := medium(), 150*time.Second; got.Lag != want || !got.Learned {
		t.Errorf("expected after one machine: %v, learned: %t, want %v", got.Lag, got.Learned, want)
	}
}

func TestAFleetInASimulationGivesUpAMachineThatDoesNotCome(t *testing.T) {
	t.Parallel()
	f := newFleet(inASecond(10), defaultFleet(), cluster.WaysOf(cluster.Migrate))
	now := sim.Epoch.Add(time.Hour)
	ordered := mediumNode("medium-0", cluster.Ordered)
	ordered.Due = 150 * time.Second
	f.Decide(now, fleetState(0, nil, ordered))
	ordered.Due = 0
	if plan := f.Decide(now.Add(15*time.Minute-time.Second), fleetState(0, nil, ordered)); len(plan.Release) > 0 {
		t.Errorf("before its time is over: %+v", plan)
	}
	plan := f.Decide(now.Add(15*time.Minute), fleetState(0, nil, ordered))
	if len(plan.Release) != 1 || plan.Release[0].Node != "medium-0" || f.flavors["medium"].Failures != 1 {
		t.Errorf("when its time is over: %+v, want that it is released and its flavor avoided", plan)
	}
}

// TestPodsOnAClosedMachineLeaveAsInACluster: each pod that may leave moves to the tightest room,
// and none twice.
func TestPodsOnAClosedMachineLeaveAsInACluster(t *testing.T) {
	t.Parallel()
	f := newFleet(minutely, defaultFleet(), cluster.WaysOf(cluster.Migrate))
	now := sim.Epoch.Add(time.Hour)
	pod := func(name string, memory int64, ways ...cluster.Method) cluster.Pod {
		p := waitingJob(name, memory, 0)
		p.Size.MilliCPU, p.Ways = 100, cluster.WaysOf(ways...)
		return p
	}
	moving, stays := pod("moving", gi, cluster.Migrate), pod("stays", gi, cluster.Migrate)
	moving.Fixed, stays.Fixed = true, true
	closed := mediumNode("a", cluster.Leaving, pod("ends", gi, cluster.Wait), pod("large", 4*gi, cluster.Migrate), moving, pod("small", gi, cluster.Evict), stays)
	s := fleetState(0, nil, closed, mediumNode("b", cluster.Ready, pod("x", 5*gi), moving), mediumNode("c", cluster.Ready), mediumNode("d", cluster.Ordered))
	f.marks["a"] = drain.Mark{Since: now, Until: now.Add(time.Minute)}
	got := f.ask(now, s, []string{"a"})
	want := []cluster.Transfer{
		{Pod: "large", From: "a", To: "c", Method: cluster.Migrate, Reason: "a is drained: it will be moved with its state"},
		{Pod: "small", From: "a", To: "b", Method: cluster.Evict, Reason: "a is drained: it can be restarted on another node"},
	}
	byName := cmpopts.SortSlices(func(a, b cluster.Transfer) bool { return a.Pod < b.Pod })
	if diff := cmp.Diff(want, got, byName); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	stay := map[string]string{}
	for _, p := range f.draining(now, s.Nodes)[0].Pods {
		stay[p.Name] = p.Stays
	}
	if diff := cmp.Diff(map[string]string{"ends": "", "large": "", "moving": "", "small": "", "stays": "it must not be moved"}, stay); diff != "" {
		t.Errorf("why pods stay (-want +got):\n%s", diff)
	}
}

func TestOnlyARestartedPodChangesItsArchitectureInASimulation(t *testing.T) {
	t.Parallel()
	f := newFleet(minutely, defaultFleet(), cluster.WaysOf(cluster.Migrate))
	now := sim.Epoch.Add(time.Hour)
	pod := func(name string, way cluster.Method) cluster.Pod {
		p := waitingJob(name, gi, 0)
		p.Ways = cluster.WaysOf(way)
		return p
	}
	other := mediumNode("b", cluster.Ready, waitingJob("x", 4*gi, 0)) // the tightest
	other.Arch = "arm64"
	s := fleetState(0, nil, mediumNode("a", cluster.Leaving, pod("migrated", cluster.Migrate), pod("restarted", cluster.Evict)), other, mediumNode("c", cluster.Ready))
	f.marks["a"] = drain.Mark{Since: now}
	to := map[string]string{}
	for _, move := range f.ask(now, s, []string{"a"}) {
		to[move.Pod] = move.To
	}
	if diff := cmp.Diff(map[string]string{"migrated": "c", "restarted": "b"}, to); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

func TestServicesInASimulationLeaveAsTheFleetLetsThem(t *testing.T) {
	t.Parallel()
	const never, in, out = v1alpha1.EvictServicesNever, v1alpha1.EvictServicesOptIn, v1alpha1.EvictServicesOptOut
	evict, migrate := cluster.WaysOf(cluster.Evict), cluster.WaysOf(cluster.Migrate)
	for _, tc := range []struct {
		name     string
		which    v1alpha1.ServiceEviction
		declares cluster.Ways
		fixed    bool
		want     cluster.Ways // 0: it stays
	}{
		{"nothing is declared", out, 0, false, evict},
		{"nothing is declared, and it must opt in", in, 0, false, 0},
		{"nothing is declared, and services never leave", never, 0, false, 0},
		{"it may be restarted", in, evict, false, evict},
		{"it is moved with its state", out, migrate, false, migrate},
		{"it may be restarted, and services never leave", never, evict, false, 0},
		{"it never moves", out, 0, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := defaultFleet()
			spec.Consolidation.EvictServices = tc.which
			f := newFleet(minutely, spec, cluster.WaysOf(cluster.Migrate))
			p := cluster.Pod{Item: packing.Item{Name: "web"}, Class: class.Service, Ways: tc.declares, Fixed: tc.fixed}
			f.observePod(&p)
			if stays := tc.want == 0; p.Fixed != stays || !stays && p.Ways != tc.want {
				t.Errorf("it leaves by %v, stays: %t; want %v", p.Ways, p.Fixed, tc.want)
			}
		})
	}
}

// TestAFleetInASimulationEmptiesMachinesOfServices runs three draws of one scenario in which every
// other service declares that it never moves.
func TestAFleetInASimulationEmptiesMachinesOfServices(t *testing.T) {
	t.Parallel()
	all := []v1alpha1.ServiceEviction{v1alpha1.EvictServicesNever, v1alpha1.EvictServicesOptIn, v1alpha1.EvictServicesOptOut}
	dollars := map[v1alpha1.ServiceEviction]int64{}
	for seed := uint64(1); seed <= 3; seed++ {
		for _, which := range all {
			dollars[which] += emptiesMachinesOfServices(t, which, seed)
		}
	}
	t.Logf("micro-dollars: %v", dollars)
	if out, stay := dollars[v1alpha1.EvictServicesOptOut], dollars[v1alpha1.EvictServicesNever]; out >= stay {
		t.Errorf("machines cost %d micro-dollars, and %d if no service moves", out, stay)
	}
}

// emptiesMachinesOfServices runs one draw, and returns its cost in micro-dollars.
func emptiesMachinesOfServices(t *testing.T, which v1alpha1.ServiceEviction, seed uint64) int64 {
	t.Helper()
	sc := theScenario(t, "cycle")
	pods, err := sc.Arrivals(seed)
	if err != nil {
		t.Fatal(err)
	}
	never, services := map[string]bool{}, map[string]bool{}
	for i := range pods {
		if pods[i].Class != class.Service {
			continue
		}
		services[pods[i].Name] = true
		if len(services)%2 == 0 {
			pods[i].Migration, never[pods[i].Name] = scenario.MoveNever, true
		}
	}
	policy := FleetWith(func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.EvictServices = which })
	r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Seed: seed, Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	moved, since := 0, map[string]time.Duration{}
	for _, p := range r.Placements {
		before, again := since[p.Pod]
		since[p.Pod] = p.At
		if !again || !services[p.Pod] {
			continue
		}
		moved++
		if never[p.Pod] {
			t.Errorf("%s, seed %d: %s was moved, which never moves", which, seed, p.Pod)
		}
		if stayed := p.At - before; stayed < 5*time.Minute {
			t.Errorf("%s, seed %d: %s was moved again after %v, want it to stay for 5 minutes", which, seed, p.Pod, stayed)
		}
	}
	if may := which == v1alpha1.EvictServicesOptOut; (moved > 0) != may {
		t.Errorf("%s, seed %d: services were moved %d times", which, seed, moved)
	}
	return r.CostMicroDollars
}

// TestWherePodsMayWaitForRoomTheyDoAndCostLess uses a quarter of the pods of the scenario, few
// enough for the existing machines to serve most of them.
func TestWherePodsMayWaitForRoomTheyDoAndCostLess(t *testing.T) {
	t.Parallel()
	text := testfile.Read(t, filepath.Join("..", "..", "test", "scenarios", "htas-on-off.yaml"))
	quarter := strings.Replace(string(text), "rate: 24/m", "rate: 6/m", 1)
	var cost [2]int64
	var wait [2]time.Duration
	for seed := range uint64(5) {
		for i, most := range []time.Duration{0, 10 * time.Minute} {
			sc, err := scenario.Read("a quarter of htas-on-off", []byte(quarter), nil)
			if err != nil {
				t.Fatal(err)
			}
			pods, err := sc.Arrivals(seed + 1)
			if err != nil {
				t.Fatal(err)
			}
			p := FleetWith(func(s *v1alpha1.NodeFleetSpec) { s.Scaling.MaxWait.Duration = most })
			r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Seed: seed + 1, Policy: p})
			if err != nil {
				t.Fatal(err)
			}
			if r.Pending > 0 || r.Scheduled != len(pods) {
				t.Errorf("seed %d: %d of %d pods were scheduled", seed+1, r.Scheduled, len(pods))
			}
			cost[i], wait[i] = cost[i]+r.CostMicroDollars, wait[i]+r.MeanWait()
		}
	}
	if cost[1] >= cost[0] || wait[1] <= wait[0] {
		t.Errorf("where they may wait, pods of five draws cost %d micro-dollars and wait for %v, else %d and %v", cost[1], wait[1], cost[0], wait[0])
	}
}
