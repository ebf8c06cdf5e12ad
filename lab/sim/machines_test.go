package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

type plans = map[time.Duration]cluster.Plan

// empty returns a scene without machines that lasts for ten minutes.
func empty(sc *scenario.Scenario) { sc.Nodes, sc.Horizon = nil, 10*m }

func TestAMachineIsReadyAfterItsLagAndTakesPodsAtOnce(t *testing.T) {
	t.Parallel()
	h := simulate(t, scene(empty), &script{plans: plans{20 * s: buy("medium"), 280 * s: releaseOf("medium-0")}}, job("job", gi, 5*s, 100*s))
	h.expect(t, "medium-0", "20s asked for", "2m50s ready", "4m40s asked to go")
	h.expect(t, "job", "2m50s started: medium-0", "4m30s ended: medium-0")
	if h.NodesStart != 0 || h.NodesAdded != 1 || h.NodesRemoved != 1 || h.NodesPeak != 1 {
		t.Errorf("%d machines at the start, %d added, %d removed, %d at most", h.NodesStart, h.NodesAdded, h.NodesRemoved, h.NodesPeak)
	}
}

func TestStartedPeriodsArePaidFromOrderToReleaseAndItsLag(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		change   func(*scenario.Scenario)
		released time.Duration // a multiple of 20 s; ordered at 20 s, ready at 170 s
		want     int64         // in dollars
		seconds  float64       // billed time
	}{
		{"from 20 to 285 s are five started minutes", func(*scenario.Scenario) {}, 280 * s, 5, 265},
		{"exactly four minutes", func(sc *scenario.Scenario) { sc.ReleaseLag = 20 * s }, 240 * s, 4, 240},
		{"a nanosecond more is the fifth", func(sc *scenario.Scenario) { sc.ReleaseLag = 20*s + 1 }, 240 * s, 5, 240},
		{"paid when it is ready, two minutes", func(sc *scenario.Scenario) { sc.BilledFrom = scenario.FromReady }, 280 * s, 2, 115},
		{"an hour is paid at least", func(sc *scenario.Scenario) { sc.BillingPeriod = time.Hour }, 280 * s, 60, 265},
		{"without a release lag, to the moment", func(sc *scenario.Scenario) { sc.ReleaseLag = 0 }, 260 * s, 4, 240},
		{"the end of the run cuts the release lag", func(sc *scenario.Scenario) { sc.ReleaseLag = time.Hour }, 280 * s, 10, 580},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			sc := scene(empty, tc.change)
			c := &script{plans: plans{20 * s: buy("medium"), tc.released: releaseOf("medium-0")}}
			h := simulate(t, sc, c, job("job", gi, 5*s, 10*s))
			if h.CostMicroDollars != tc.want*dollar || !near(h.MachineSeconds, tc.seconds) {
				t.Errorf("%d micro-dollars for %v s, want %d dollars for %v s", h.CostMicroDollars, h.MachineSeconds, tc.want, tc.seconds)
			}
		})
	}
}

func TestAMachineReleasedAtTheVeryStartIsPaidForNoLonger(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.ReleaseLag, sc.Horizon = 0, 10*m })
	h := simulate(t, sc, &script{plans: plans{0: releaseOf("medium-0")}})
	if h.CostMicroDollars != dollar || h.MachineSeconds != 0 { // at least one period
		t.Errorf("%d micro-dollars for %v s, want a dollar for nothing", h.CostMicroDollars, h.MachineSeconds)
	}
}

func TestMachinesOnOrderAtTheEndArePaidOnlyIfOrdersAre(t *testing.T) {
	t.Parallel()
	for from, want := range map[scenario.BilledFrom]int64{scenario.FromOrder: 2, scenario.FromReady: 0} {
		sc := scene(empty, func(sc *scenario.Scenario) { sc.BilledFrom, sc.Horizon = from, 2*m })
		h := simulate(t, sc, &script{plans: plans{0: buy("medium")}})
		if h.CostMicroDollars != want*dollar || h.NodesPeak != int(min(want, 1)) {
			t.Errorf("billed from %s: %d micro-dollars for at most %d machines, want %d dollars", from, h.CostMicroDollars, h.NodesPeak, want)
		}
	}
}

// TestNothingHappensAfterTheEnd: rounds are at multiples of 7 min, and the next one after the
// horizon would buy.
func TestNothingHappensAfterTheEnd(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon, sc.ScalingInterval = 10*m, 7*m })
	c := &script{each: func(_ time.Duration, st *cluster.State) cluster.Plan {
		if st.Scaling {
			return buy("medium")
		}
		return cluster.Plan{}
	}}
	h := simulate(t, sc, c, service("big", 9*gi, 0, 0))
	if last := c.interval[len(c.interval)-1].At; last > 10*m || h.NodesAdded != 2 || h.Over != 10*m {
		t.Errorf("over at %v, last decision at %v, %d machines bought, want those of 0 and 7 min", h.Over, last, h.NodesAdded)
	}
	if h.CostMicroDollars != (10+10+3)*dollar {
		t.Errorf("%d micro-dollars, want 23 dollars", h.CostMicroDollars)
	}
}

func TestLagsAreDrawnFromTheSeed(t *testing.T) {
	t.Parallel()
	sc := scene(empty, func(sc *scenario.Scenario) { sc.AcquisitionLag.SD = 4 * s })
	ready := func(seed uint64) (all []time.Duration) {
		c := &script{plans: plans{20 * s: buy("medium", "medium", "medium", "wide")}}
		input := sim.Input{Scenario: sc, Policy: c.policy(), Seed: seed, Pods: []scenario.Pod{job("job", gi, 0, s)}}
		run(t, input.Watched(func(f sim.Fact) {
			if f.What == "ready" {
				all = append(all, f.At-20*s)
			}
		}))
		return all
	}
	first := ready(1)
	if diff := cmp.Diff(first, ready(1)); diff != "" {
		t.Errorf("the same seed draws other lags (-first +second):\n%s", diff)
	}
	var want []time.Duration
	for n := 1; n <= 4; n++ {
		want = append(want, sc.AcquisitionLag.Draw(1, n))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("lags (-want +got):\n%s", diff)
	}
	if slices.Equal(first, ready(2)) || len(slices.Compact(first)) != 4 {
		t.Errorf("lags are %v with seed 1 and %v with seed 2, want eight", first, ready(2))
	}
}

func TestAMachineOnOrderIsDueWhenTheMeanLagIsOver(t *testing.T) {
	t.Parallel()
	sc := scene(empty, func(sc *scenario.Scenario) { sc.Horizon = 4 * m })
	c := &script{each: func(at time.Duration, _ *cluster.State) cluster.Plan {
		plan := cluster.Plan{Wake: 20 * s}
		if at == 20*s {
			plan.Buy = []cluster.Purchase{{Flavor: "wide", Class: class.Batch}}
		}
		return plan
	}}
	simulate(t, sc, c)
	n := nodeOf(t, c.at(t, m), "wide-0")
	want := cluster.Node{
		Name: "wide-0", Flavor: "wide", Class: class.Batch, Capacity: wide.Size, MaxPods: new(int64(110)), Arch: "amd64",
		MicroDollarsPerHour: 120 * dollar, Phase: cluster.Ordered, Due: 110 * s, Age: 40 * s, Pods: []cluster.Pod{},
	}
	if diff := cmp.Diff(want, *n); diff != "" {
		t.Errorf("40 s after the order (-want +got):\n%s", diff)
	}
	n = nodeOf(t, c.at(t, 3*m), "wide-0")
	if n.Phase != cluster.Ready || n.Due != 0 || n.Age != 160*s {
		t.Errorf("after it is ready: phase %d, due in %v, age %v", n.Phase, n.Due, n.Age)
	}
}

func TestAgeCountsFromWhenAMachineIsPaid(t *testing.T) {
	t.Parallel()
	sc := scene(empty, func(sc *scenario.Scenario) { sc.BilledFrom, sc.Horizon = scenario.FromReady, 4*m })
	c := &script{plans: plans{20 * s: buy("wide"), m: {}, 200 * s: {}}}
	simulate(t, sc, c)
	for at, want := range map[time.Duration]time.Duration{m: 0, 200 * s: 30 * s} {
		if got := nodeOf(t, c.at(t, at), "wide-0").Age; got != want {
			t.Errorf("age %v at %v, want %v", got, at, want)
		}
	}
}

func TestTheLimitCountsMachinesUntilTheyAreGone(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.MaxNodes, sc.ReleaseLag, sc.Horizon = 1, 30*s, 10*m })
	c := &script{plans: plans{20 * s: releaseOf("medium-0"), 40 * s: {}, m: buy("medium")}}
	h := simulate(t, sc, c)
	for at, want := range map[time.Duration]int{20 * s: 1, 40 * s: 0, m: 1} {
		if got := c.at(t, at).MaxNodes; got != want {
			t.Errorf("the limit is %d at %v, want %d", got, at, want)
		}
	}
	if h.NodesPeak != 1 || h.NodesAdded != 1 {
		t.Errorf("at most %d machines and %d bought, want 1", h.NodesPeak, h.NodesAdded)
	}
}

func TestAMachineReleasedBeforeItIsReadyNeverIs(t *testing.T) {
	t.Parallel()
	sc := scene(empty, func(sc *scenario.Scenario) { sc.Horizon = 5 * m })
	c := &script{plans: plans{20 * s: buy("wide"), m: releaseOf("wide-0"), 4 * m: {}}}
	h := simulate(t, sc, c)
	h.expect(t, "wide-0", "20s asked for", "1m0s asked to go")
	if n := len(c.at(t, 4*m).Nodes); n != 0 || h.CostMicroDollars != 2*dollar {
		t.Errorf("there are %d nodes, and it cost %d, want none and two dollars for a minute", n, h.CostMicroDollars)
	}
}

func TestPlansThatCannotBeCarriedOutEndTheRun(t *testing.T) {
	t.Parallel()
	pair := func(sc *scenario.Scenario) { sc.Nodes = []scenario.Nodes{nodes("medium", 1), nodes("wide", 1)} }
	arm := func(sc *scenario.Scenario) { pair(sc); sc.Flavors[1].Arch = "arm64" }
	packed := func(sc *scenario.Scenario) { pair(sc); sc.Flavors[1].MaxPods = new(int64(1)) }
	full := func(sc *scenario.Scenario) { sc.MaxNodes = 1 }
	both := func(a, b cluster.Plan) cluster.Plan {
		return cluster.Plan{Drains: append(a.Drains, b.Drains...), Release: append(a.Release, b.Release...)}
	}
	tests := []struct {
		name   string
		change func(*scenario.Scenario)
		plans  plans
		want   string
	}{
		{"release a node with a pod", nil, plans{20 * s: releaseOf("medium-0")}, "release medium-0, which is not an empty machine"},
		{"release an unknown node", nil, plans{20 * s: releaseOf("medium-9")}, "release medium-9"},
		{"release twice", pair, plans{20 * s: both(releaseOf("wide-0"), releaseOf("wide-0"))}, "release wide-0"},
		{"release the target of a move", pair, plans{20 * s: both(migrate("medium-0", "job", "wide-0"), releaseOf("wide-0"))}, "release wide-0"},
		{"empty an unknown node", nil, plans{20 * s: evict("nowhere")}, "empty nowhere"},
		{"empty a machine on order", nil, plans{20 * s: buy("wide"), 40 * s: evict("wide-0")}, "empty wide-0"},
		{"empty a node that is being emptied", nil, plans{20 * s: replace("medium-0", "medium"), 40 * s: evict("medium-0")}, "empty medium-0"},
		{"empty a node that pods move to", pair, plans{20 * s: both(migrate("medium-0", "job", "wide-0"), evict("wide-0"))}, "empty wide-0"},
		{"move a pod that is not there", pair, plans{20 * s: migrate("medium-0", "ghost", "wide-0")}, "move pod ghost from medium-0 to wide-0"},
		{"move a pod twice", pair, plans{20 * s: migrate("medium-0", "job", "wide-0", "job", "wide-0")}, "move pod job"},
		{"move to an unknown node", nil, plans{20 * s: migrate("medium-0", "job", "wide-0")}, "to wide-0"},
		{"move to a machine on order", nil, plans{20 * s: buy("wide"), 40 * s: migrate("medium-0", "job", "wide-0")}, "to wide-0"},
		{"move to the node itself", nil, plans{20 * s: migrate("medium-0", "job", "medium-0")}, "to medium-0"},
		{"move to a node without the room", pair, plans{20 * s: migrate("medium-0", "job", "wide-0", "other", "wide-0")}, "move pod other"},
		{"move to a node with enough pods", packed, plans{20 * s: migrate("medium-0", "other", "wide-0", "job", "wide-0")}, "move pod job"},
		{"move to another architecture", arm, plans{20 * s: migrate("medium-0", "job", "wide-0")}, "move pod job"},
		{"buy beyond the limit", full, plans{20 * s: buy("medium")}, "beyond the limit of 1"},
		{"buy while one of as many as there may be is still leaving", func(sc *scenario.Scenario) { sc.MaxNodes, sc.Nodes[0].Count, sc.ReleaseLag = 2, 2, m },
			plans{20 * s: releaseOf("medium-1"), 40 * s: buy("medium")}, "beyond the limit of 2"},
		{"replace beyond the limit", full, plans{20 * s: replace("medium-0", "medium")}, "beyond the limit of 1"},
		{"buy an unknown flavor", nil, plans{20 * s: buy("gold")}, `flavor "gold"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			sc := scene()
			if tc.change != nil {
				tc.change(sc)
			}
			// Both jobs start on medium-0. The filler keeps them off wide-0, which then has room
			// for one.
			sc.Flavors[0].Size.MemoryBytes, sc.Flavors[1].Size.MemoryBytes = 9*gi, 7*gi
			job, other, filler := job("job", 4*gi, 0, 10*m), job("other", 4*gi, 0, 10*m), job("filler", 7*gi, 0, 10*s)
			job.Arch = "amd64"
			pods := []scenario.Pod{job, other}
			if len(sc.Nodes) == 2 {
				pods = append(pods, filler)
			}
			c := &script{plans: tc.plans}
			_, err := try(t, sc, c, pods...)
			if err == nil || !strings.Contains(err.Error(), "the plan cannot be carried out") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want that the plan cannot be carried out: %s", err, tc.want)
			}
		})
	}
}

func TestEnergyIsIdlePowerAndTheRestByRequestedCPU(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) {
		sc.Flavors[0].MilliwattsIdle, sc.Flavors[0].MilliwattsFull = 40_000, 95_000
		sc.Autoscale, sc.Horizon = false, 100*s
	})
	half := job("half", gi, 10*s, m)
	half.Size.MilliCPU = 1000
	r := run(t, sim.Input{Scenario: sc, Policy: fixed(stock), Pods: []scenario.Pod{half}})
	if want := 100*40 + 60*55*0.5; !near(r.EnergyJoules, want) {
		t.Errorf("%v J, want %v", r.EnergyJoules, want)
	}
}

func TestMachinesDrawPowerWhileTheyArePaid(t *testing.T) {
	t.Parallel()
	for from, want := range map[scenario.BilledFrom]float64{scenario.FromOrder: 265, scenario.FromReady: 115} {
		sc := scene(empty, func(sc *scenario.Scenario) {
			sc.BilledFrom, sc.Flavors[0].MilliwattsIdle, sc.Flavors[0].MilliwattsFull = from, 1000, 1000
		})
		h := simulate(t, sc, &script{plans: plans{20 * s: buy("medium"), 280 * s: releaseOf("medium-0")}}, job("job", gi, 5*s, 100*s))
		if !near(h.EnergyJoules, want) {
			t.Errorf("billed from %s: %v J, want %v", from, h.EnergyJoules, want)
		}
	}
}

func TestUtilizationIsWhatPodsAskForOfWhatIsPaid(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Nodes, sc.Horizon = []scenario.Nodes{nodes("wide", 1)}, 100*s })
	big, small := job("big", 8*gi, 0, 50*s), job("small", 4*gi, 20*s, 10*s)
	big.Size.MilliCPU, small.Size.MilliCPU = 1000, 3000
	h := simulate(t, sc, &script{plans: plans{20 * s: buy("medium")}}, big, small)
	o := h.Outcome("p", sim.Bounds{}, 0)
	cpu := (1000*50.0 + 3000*10) / (4000*100 + 2000*80)
	memory := (8*50.0 + 4*10) / (16*100 + 8*80)
	if !near(o.Utilization.CPU, cpu) || !near(o.Utilization.Memory, memory) {
		t.Errorf("utilization %+v, want %v and %v", o.Utilization, cpu, memory)
	}
}

func TestMachinesAreNumberedByFlavor(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 10 * m })
	c := &script{plans: plans{20 * s: buy("wide", "medium"), 40 * s: releaseOf("medium-0"), m: buy("medium"), 300 * s: {}}}
	simulate(t, sc, c)
	var got []string
	for _, n := range c.at(t, 300*s).Nodes {
		got = append(got, n.Name)
	}
	if diff := cmp.Diff([]string{"medium-1", "medium-2", "wide-0"}, got); diff != "" {
		t.Errorf("nodes, by name (-want +got):\n%s", diff)
	}
}

func TestABillThatCannotBeCountedIsRefused(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) {
		sc.Flavors[0].MicroDollarsPerHour, sc.BillingPeriod = 1_000_000*dollar, scenario.MaxDuration.Truncate(time.Hour)
		sc.Nodes[0].Count, sc.MaxNodes = 200, 200
	})
	_, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Policy: fixed(stock)})
	if err == nil || !strings.Contains(err.Error(), "exceeds nine trillion dollars") {
		t.Errorf("error %v, want that the bill is more than can be counted", err)
	}
}

func TestEventsAreCountedByKind(t *testing.T) {
	t.Parallel()
	h := simulate(t, scene(empty), &script{plans: plans{20 * s: buy("medium", "wide"), 280 * s: releaseOf("medium-0")}}, job("job", gi, 5*s, 100*s))
	want := map[string]int64{
		"machinesReady": 2, "machinesReleased": 1, "scalingRounds": 5, "schedulingAttempts": 2, "starts": 1,
	}
	if diff := cmp.Diff(want, h.Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
