package policy

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/moves"
)

// long is the experiment with a third of the tasks, ten times as long: tasks that start during a
// burst still run when better machines become available.
func long(t *testing.T, how scenario.Migratable) *scenario.Scenario {
	t.Helper()
	sc := heatsScenario(t)
	for i := range sc.TaskKinds {
		if k := &sc.TaskKinds[i]; k.Name == "k-means" {
			k.MinRuntime, k.MaxRuntime, k.Migration = 10*k.MinRuntime, 10*k.MaxRuntime, how
		}
	}
	sc.Workload.Patterns[0].Count /= 3
	return sc
}

// still is the scenario without moves.
func still(sc *scenario.Scenario) *scenario.Scenario {
	without := *sc
	without.Rescheduling.Interval = 0
	return &without
}

func TestLongTasksMoveToMachinesThatSuitThemBetter(t *testing.T) {
	t.Parallel()
	moving, staying := runHEATS(t, long(t, scenario.MoveWithState), "heats-0", "heats-1"), runHEATS(t, still(long(t, scenario.MoveWithState)), "heats-0", "heats-1")
	if less := 100 * (1 - moving.mean("heats-1", tasks)/staying.mean("heats-1", tasks)); !(less >= 3) {
		t.Errorf("for energy alone moves save %.1f %% of the tasks' energy, want 3", less)
	}
	if less := 100 * (1 - moving.mean("heats-0", runtimeOf)/staying.mean("heats-0", runtimeOf)); !(less >= 0.5) {
		t.Errorf("for runtime alone moves save %.1f %% of the mean runtime, want 0.5", less)
	}
	for i, p := range moving["heats-1"] {
		if m := p.Moves; m.Migrations == 0 || m.Evictions > 0 || m.FrozenSeconds <= 0 || m.LostWorkSeconds > 0 || m.ExpectedSavedJoules <= 0 || m.ExpectedAddedJoules > 0 {
			t.Errorf("seed %d, energy alone: %+v, want migrations that are to save energy", i+1, m)
		}
		if m := moving["heats-0"][i].Moves; m.Migrations == 0 || m.ExpectedAddedJoules <= 0 {
			t.Errorf("seed %d, runtime alone: %+v, want migrations that take more energy", i+1, m)
		}
		if m := staying["heats-1"][i].Moves; m.Migrations+m.Evictions > 0 {
			t.Errorf("seed %d: %+v without rescheduling", i+1, m)
		}
	}
}

// TestTasksThatMayBeStartedAgainLeaveTheSlowestMachines: state cannot be moved between
// architectures.
func TestTasksThatMayBeStartedAgainLeaveTheSlowestMachines(t *testing.T) {
	t.Parallel()
	again, checkpoint := runHEATS(t, long(t, scenario.MoveByRestart), "heats-0"), runHEATS(t, long(t, scenario.MoveWithState), "heats-0")
	if less := 100 * (1 - again.mean("heats-0", runtimeOf)/checkpoint.mean("heats-0", runtimeOf)); !(less >= 10) {
		t.Errorf("starting again saves %.1f %% of the mean runtime, want 10", less)
	}
	for i, p := range again["heats-0"] {
		if m := p.Moves; m.Evictions == 0 || m.LostWorkSeconds <= 0 || m.Migrations > 0 {
			t.Errorf("seed %d: %+v, want restarts and the work that they lose", i+1, m)
		}
	}
}

func TestMovesKeepToTheirRules(t *testing.T) {
	t.Parallel()
	for _, how := range []scenario.Migratable{scenario.MoveWithState, scenario.MoveByRestart, scenario.MoveNever} {
		sc := long(t, how)
		sc.Rescheduling.Residence, sc.Rescheduling.Pods = 40*time.Second, 2
		pods, err := sc.Arrivals(1)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"heats-0", "heats-1"} {
			r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Seed: 1, Policy: byName(t, name)})
			if err != nil {
				t.Fatalf("%s, %q: %v", name, how, err)
			}
			if moved := r.Migrations + r.Evictions; (moved > 0) != (how != scenario.MoveNever) {
				t.Errorf("%s, %q: %d moves", name, how, moved)
			}
			checkMoves(t, name+" "+string(how), sc, r)
		}
	}
}

// checkMoves checks where and when pods moved: none across architectures with its state, none
// before its residence was over, none restarted twice, and no more at once than the budget allows.
func checkMoves(t *testing.T, name string, sc *scenario.Scenario, r *sim.Result) {
	t.Helper()
	arch := map[string]string{}
	for _, f := range sc.Flavors {
		arch[f.Name] = f.Arch
	}
	last, restarted, atOnce := map[string]sim.Placement{}, map[string]bool{}, map[time.Duration]int64{}
	for _, p := range r.Placements {
		before, placed := last[p.Pod]
		last[p.Pod] = p
		if !placed {
			continue
		}
		left := p.At // the move began before the copy
		withState := strings.HasPrefix(p.Reason, "moved")
		switch {
		case withState:
			left -= cluster.Migration(sc.Migration).Time(100 << 20)
			if arch[before.Flavor] != arch[p.Flavor] {
				t.Errorf("%s: %s goes with its state from %s to %s", name, p.Pod, before.Flavor, p.Flavor)
			}
		case restarted[p.Pod]:
			t.Errorf("%s: %s is restarted twice", name, p.Pod)
		}
		restarted[p.Pod] = restarted[p.Pod] || !withState
		if stayed := left - before.At; stayed < sc.Rescheduling.Residence {
			t.Errorf("%s: %s moves after %v", name, p.Pod, stayed)
		}
		if atOnce[left]++; atOnce[left] > sc.Rescheduling.Pods {
			t.Errorf("%s: %d pods move at %v", name, atOnce[left], left)
		}
	}
}

func TestTheWeightOfAPodGoesBeforeThatOfItsNamespaceAndThatOfThePolicy(t *testing.T) {
	t.Parallel()
	sc := heatsScenario(t)
	zero, one := 0.0, 1.0
	sc.Namespaces = []scenario.Namespace{{Name: "fast", EnergyWeight: &zero}, {Name: "green", EnergyWeight: &one}}
	pods, err := sc.Arrivals(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		policy, namespace string
		own               *float64
		want              string
	}{
		{"heats-1", "", nil, "cervino"},
		{"heats-1", "fast", nil, "eiger"},
		{"heats-1", "fast", &one, "cervino"},
		{"heats-0", "green", nil, "cervino"},
		{"heats-0", "green", &zero, "eiger"},
		{"heats-0", "silent", nil, "eiger"},
	} {
		pod := pods[0]
		pod.Namespace, pod.EnergyWeight = tc.namespace, tc.own
		r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: []scenario.Pod{pod}, Seed: 1, Policy: byName(t, tc.policy)})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Placements[0].Flavor; got != tc.want {
			t.Errorf("%s, namespace %q, own weight %v: %s, want %s", tc.policy, tc.namespace, tc.own, got, tc.want)
		}
	}
}

// TestRunningPodsMoveByTheirOwnWeight: of two equal tasks on the frugal machine, the one that
// prefers runtime moves to the fast one.
func TestRunningPodsMoveByTheirOwnWeight(t *testing.T) {
	t.Parallel()
	sc := heatsScenario(t)
	zero := 0.0
	state := crowd("hurry", "patient")
	state.Nodes[0].Pods[0].EnergyWeight = &zero
	plan := suiting(sc, 1, nil).Decide(sim.Epoch.Add(time.Minute), state)
	if len(plan.Transfers) != 1 || plan.Transfers[0].Pod != "hurry" || plan.Transfers[0].To != "eiger-0" || plan.Transfers[0].Joules >= 0 {
		t.Errorf("moves are %+v, want hurry to go to eiger-0 at a cost", plan.Transfers)
	}
}

// crowd has a frugal machine with tasks that have run for one of twenty minutes, and an empty fast
// one.
func crowd(names ...string) *cluster.State {
	size := packing.Size{MilliCPU: 2000, MemoryBytes: 100 << 20}
	s := &cluster.State{
		Nodes: []cluster.Node{
			{Name: "cervino-0", Flavor: "cervino", Class: class.Any, Capacity: packing.Size{MilliCPU: 88_000, MemoryBytes: 32 << 30}, Arch: "amd64", Phase: cluster.Ready},
			{Name: "eiger-0", Flavor: "eiger", Class: class.Any, Capacity: packing.Size{MilliCPU: 48_000, MemoryBytes: 64 << 30}, Arch: "amd64", Phase: cluster.Ready},
		},
		Migration: cluster.DefaultMigration,
	}
	for _, name := range names {
		s.Nodes[0].Pods = append(s.Nodes[0].Pods, cluster.Pod{
			Item: packing.Item{Name: name, Size: size, Runtime: 19 * time.Minute}, Class: class.Batch, Ran: time.Minute, Resided: time.Minute,
		})
	}
	return s
}

// TestMovesAreThoseOfTheDeschedulersPlanner: the simulator makes exactly the moves of
// [moves.Better].
func TestMovesAreThoseOfTheDeschedulersPlanner(t *testing.T) {
	t.Parallel()
	sc := heatsScenario(t)
	profiles, err := learned(sc)
	if err != nil {
		t.Fatal(err)
	}
	now, state := sim.Epoch.Add(time.Minute), crowd("a", "b", "c")
	want := moves.Better(moves.TransferConfig{Gain: 10, PodResidence: 10 * time.Second, Budget: moves.Budget{Pods: 20}, Risk: -1},
		moves.Machines{Profiles: profiles, Now: now, Type: func(n *cluster.Node) string { return n.Flavor }, Weight: func(*cluster.Pod) float64 { return 0 }}, state)
	if len(want) != 3 {
		t.Fatalf("the planner moves %d pods, want 3", len(want))
	}
	plan := suiting(sc, 0, nil).Decide(now, state)
	for i, got := range plan.Transfers {
		w := want[i]
		if diff := cmp.Diff(cluster.Transfer{Pod: w.Pod, From: w.From, To: w.To, Method: w.Method, Joules: w.Joules, Reason: w.Reason}, got); diff != "" {
			t.Errorf("move %d (-planner +simulator):\n%s", i, diff)
		}
	}
	if len(plan.Transfers) != 3 || plan.Wake != sc.Rescheduling.Interval {
		t.Errorf("%d moves, asked again after %v", len(plan.Transfers), plan.Wake)
	}
}

func TestMovesComeEverySoOften(t *testing.T) {
	t.Parallel()
	c := suiting(heatsScenario(t), 0, nil) // every 10 s
	asked := map[time.Duration]int{}
	for _, at := range []time.Duration{5, 9, 10, 11, 19, 20, 33, 42, 43} {
		plan := c.Decide(sim.Epoch.Add(at*time.Second), crowd("a"))
		asked[at] = len(plan.Transfers)
		if plan.Wake <= 0 || plan.Wake > 10*time.Second {
			t.Errorf("at %d s it wants to be asked again after %v", at, plan.Wake)
		}
	}
	if want := (map[time.Duration]int{5: 0, 9: 0, 10: 1, 11: 0, 19: 0, 20: 1, 33: 1, 42: 0, 43: 1}); !maps.Equal(asked, want) {
		t.Errorf("moves at %v, want %v", asked, want)
	}
}

// TestMovesLeaveMachinesAloneThatOthersDecideAbout: no pod moves from or to a machine that is being
// emptied.
func TestMovesLeaveMachinesAloneThatOthersDecideAbout(t *testing.T) {
	t.Parallel()
	sc, now := heatsScenario(t), sim.Epoch.Add(time.Minute)
	for name, tc := range map[string]struct {
		plan  cluster.Plan
		moves int
	}{
		"nothing else":                {cluster.Plan{}, 1},
		"its machine is emptied":      {cluster.Plan{Drains: []cluster.Drain{{Node: "cervino-0"}}}, 0},
		"the other is":                {cluster.Plan{Drains: []cluster.Drain{{Node: "eiger-0"}}}, 0},
		"the other is released":       {cluster.Plan{Release: []cluster.Release{{Node: "eiger-0"}}}, 0},
		"others are on their way":     {cluster.Plan{Drains: []cluster.Drain{{Node: "x", Moves: []cluster.Move{{Pod: "p", Target: "eiger-0"}}}}}, 0},
		"it wants to be asked sooner": {cluster.Plan{Wake: time.Second}, 1},
	} {
		rest := controller(func(time.Time, *cluster.State) cluster.Plan { return tc.plan })
		plan := suiting(sc, 0, rest).Decide(now, crowd("a"))
		if len(plan.Transfers) != tc.moves || tc.plan.Wake > 0 && plan.Wake != tc.plan.Wake {
			t.Errorf("%s: %d moves, asked again after %v", name, len(plan.Transfers), plan.Wake)
		}
	}
}

// controller adapts a function to sim.Controller.
type controller func(now time.Time, s *cluster.State) cluster.Plan

// Decide implements sim.Controller.
func (c controller) Decide(now time.Time, s *cluster.State) cluster.Plan { return c(now, s) }
