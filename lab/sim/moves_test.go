package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// pair has two machines. Pods that fit go to medium-0 first, which is the tighter fit.
func pair(sc *scenario.Scenario) {
	sc.Nodes, sc.Horizon = []scenario.Nodes{nodes("medium", 1), nodes("wide", 1)}, 5*m
}

// ten is an amount of memory that takes ten seconds to copy, plus two for the rest.
const ten = int64(1_500_000_000)

func TestAMovedPodContinuesWhereItWasFrozen(t *testing.T) {
	t.Parallel()
	h := simulate(t, scene(pair), &script{plans: plans{20 * s: migrate("medium-0", "job", "wide-0")}}, job("job", ten, 0, 100*s))
	h.expect(t, "job", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "32s moved: wide-0", "1m52s ended: wide-0")
	h.expect(t, "medium-0", "0s asked for", "0s ready", "32s asked to go")
	if h.Migrations != 1 || h.Evictions != 0 || h.LostWork != 0 || h.Scheduled != 1 || h.Completed != 1 || len(h.Waits) != 1 {
		t.Errorf("counts %s", h.counts())
	}
	want := sim.Placement{At: 32 * s, Pod: "job", Node: "wide-0", Flavor: "wide", Reason: "moved from medium-0: the script says so"}
	if diff := cmp.Diff(want, h.Placements[1]); diff != "" {
		t.Errorf("placement (-want +got):\n%s", diff)
	}
	// medium-0 until 37 s costs one minute; wide-0 costs five minutes at two dollars.
	if h.CostMicroDollars != 11*dollar {
		t.Errorf("cost %d micro-dollars, want 11 dollars", h.CostMicroDollars)
	}
}

func TestWorkContinuesAtTheSpeedOfTheTarget(t *testing.T) {
	t.Parallel()
	for speed, want := range map[float64]string{2: "1m12s", 0.5: "3m12s"} { // 32 s + 80 s / speed
		sc := scene(pair, func(sc *scenario.Scenario) { sc.Flavors[1].Speed = speed })
		h := simulate(t, sc, &script{plans: plans{20 * s: migrate("medium-0", "job", "wide-0")}}, job("job", ten, 0, 100*s))
		if h.Makespan.String() != want {
			t.Errorf("at speed %v the job ends at %v, want %s", speed, h.Makespan, want)
		}
	}
	sc := scene(pair, func(sc *scenario.Scenario) { sc.Flavors[0].Speed = 2 })
	h := simulate(t, sc, &script{plans: plans{20 * s: migrate("medium-0", "job", "wide-0")}}, job("job", ten, 0, 100*s))
	if want := 32*s + 60*s; h.Makespan != want {
		t.Errorf("after 20 s at double speed the job ends at %v, want %v", h.Makespan, want)
	}
}

// TestAMoveHoldsRoomOnBothMachines: the move takes 22 s from 20 s on.
func TestAMoveHoldsRoomOnBothMachines(t *testing.T) {
	t.Parallel()
	c := &script{plans: plans{20 * s: migrate("medium-0", "job", "wide-0"), 40 * s: {}, m: {}}}
	h := simulate(t, scene(pair), c,
		job("job", 2*ten, 0, 100*s), job("wait", 16*gi, 25*s, s), job("fits", 16*gi-2*ten, 26*s, s), job("early", 8*gi-2*ten, 26*s, 2*s))
	st := c.at(t, 40*s)
	from, to := nodeOf(t, st, "medium-0"), nodeOf(t, st, "wide-0")
	if from.Phase != cluster.Leaving || to.Phase != cluster.Ready || from.Incoming != 0 || to.Incoming != 1 {
		t.Errorf("phases %d and %d, incoming %d and %d, want Leaving and Ready, 0 and 1", from.Phase, to.Phase, from.Incoming, to.Incoming)
	}
	for _, n := range []*cluster.Node{from, to} {
		if p := podOf(t, n, "job"); !p.Fixed || p.Ran != 20*s || p.Runtime != 82*s {
			t.Errorf("on %s the job is %+v, want it fixed, that it ran for 20 s and needs 82 s", n.Name, p)
		}
	}
	n := nodeOf(t, c.at(t, m), "wide-0")
	if p := podOf(t, n, "job"); n.Incoming != 0 || p.Fixed || p.Ran != 38*s || p.Runtime != 62*s {
		t.Errorf("after the move the job is %+v, want it free, that it ran for 38 s and needs 62 s", p)
	}
	// The source accepts nothing although it has room. The target has room next to the arriving
	// pod, which counts as if it were there.
	h.expect(t, "early", "26s started: wide-0", "28s ended: wide-0")
	h.expect(t, "fits", "40s started: wide-0", "41s ended: wide-0")
	h.expect(t, "wait", "2m20s started: wide-0", "2m21s ended: wide-0")
}

func TestASourceIsReleasedWhenItsLastPodHasLeft(t *testing.T) {
	t.Parallel()
	c := &script{plans: plans{20 * s: migrate("medium-0", "fast", "wide-0", "slow", "wide-0")}}
	h := simulate(t, scene(pair), c, job("fast", ten, 0, 100*s), job("slow", 2*ten, 0, 100*s), job("stays", gi, 0, 60*s))
	h.expect(t, "fast", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "32s moved: wide-0", "1m52s ended: wide-0")
	h.expect(t, "slow", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "42s moved: wide-0", "2m2s ended: wide-0")
	h.expect(t, "stays", "0s started: medium-0", "1m0s ended: medium-0") // the plan leaves it
	h.expect(t, "medium-0", "0s asked for", "0s ready", "1m0s asked to go")
}

func TestANodeWithoutPodsIsEmptiedAtOnce(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]cluster.Plan{
		"migrate": migrate("medium-0"), "evict": evict("medium-0"), "replace": replace("medium-0", "medium"),
	} {
		t.Run(name, func(t *testing.T) {
			h := simulate(t, scene(pair), &script{plans: plans{20 * s: plan}})
			h.expect(t, "medium-0", "0s asked for", "0s ready", "20s asked to go")
		})
	}
}

func TestAClosedMachineStaysUntilItIsReleased(t *testing.T) {
	t.Parallel()
	closed := cluster.Plan{Drains: []cluster.Drain{{Node: "medium-0", Method: cluster.Wait, CordonOnly: true}}}
	c := &script{plans: plans{20 * s: closed, 2 * m: releaseOf("medium-0")}}
	h := simulate(t, scene(pair), c, job("job", 16*gi, 0, 10*m), job("early", gi, 0, m), job("late", gi, 40*s, s))
	h.expect(t, "medium-0", "0s asked for", "0s ready", "2m0s asked to go")
	h.expect(t, "late", "10m0s started: wide-0", "10m1s ended: wide-0") // it accepts no more pods
}

func TestAClosedMachineIsOpenedAgainWhilePodsLeaveIt(t *testing.T) {
	t.Parallel()
	begin := cluster.Plan{
		Drains:    []cluster.Drain{{Node: "medium-0", Method: cluster.Wait, CordonOnly: true}},
		Transfers: []cluster.Transfer{{Pod: "job", From: "medium-0", To: "wide-0", Method: cluster.Migrate}},
	}
	c := &script{plans: plans{20 * s: begin, 25 * s: {}, 40 * s: {Uncordon: []cluster.Stay{{Node: "medium-0"}}}}}
	h := simulate(t, scene(pair), c, job("job", 4*ten, 0, 100*s), job("stays", gi, 0, m), job("fills", 16*gi-4*ten, 25*s, m), job("late", gi, 26*s, s))
	h.expect(t, "job", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "1m2s moved: wide-0", "2m22s ended: wide-0")
	h.expect(t, "late", "40s started: medium-0", "41s ended: medium-0")
	h.expect(t, "medium-0", "0s asked for", "0s ready")
}

func TestAClosedMachineIsEmptiedLater(t *testing.T) {
	t.Parallel()
	closed := cluster.Plan{Drains: []cluster.Drain{{Node: "medium-0", Method: cluster.Wait, CordonOnly: true}}}
	c := &script{plans: plans{20 * s: closed, 40 * s: evict("medium-0")}}
	h := simulate(t, scene(pair), c, job("job", 4*gi, 0, 100*s), job("early", gi, 0, 30*s))
	h.expect(t, "job", "0s started: medium-0", "40s evicted: medium-0", "40s started: wide-0", "2m20s ended: wide-0")
	h.expect(t, "medium-0", "0s asked for", "0s ready", "40s asked to go")
	if h.Evictions != 1 || h.LostWork != 40*s || h.Events["drains"] != 1 {
		t.Errorf("counts %s, %d drains", h.counts(), h.Events["drains"])
	}
}

func TestAReplacementTakesThePodsThatAreStillThere(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Nodes, sc.Horizon = []scenario.Nodes{nodes("wide", 1)}, 20*m })
	c := &script{plans: plans{20 * s: replace("wide-0", "medium"), 40 * s: {}}}
	h := simulate(t, sc, c, job("short", ten, 0, 100*s), job("long", ten, 0, 300*s), job("new", gi, 30*s, 10*s))
	h.expect(t, "short", "0s started: wide-0", "1m40s ended: wide-0")
	h.expect(t, "long", "0s started: wide-0", "2m50s frozen, on its way to the node: medium-0", "3m2s moved: medium-0", "5m12s ended: medium-0")
	h.expect(t, "new", "2m50s started: medium-0", "3m0s ended: medium-0") // the source accepts no more pods
	h.expect(t, "medium-0", "20s asked for", "2m50s ready")
	h.expect(t, "wide-0", "0s asked for", "0s ready", "3m2s asked to go")
	if n := nodeOf(t, c.at(t, 40*s), "wide-0"); n.Phase != cluster.Leaving {
		t.Errorf("the source has phase %d while its replacement starts, want Leaving", n.Phase)
	}
}

func TestASourceThatEmptiesBeforeItsReplacementComesIsReleasedThen(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 5 * m })
	h := simulate(t, sc, &script{plans: plans{20 * s: replace("medium-0", "medium")}}, job("short", gi, 0, 100*s))
	h.expect(t, "medium-0", "0s asked for", "0s ready", "1m40s asked to go")
	h.expect(t, "medium-1", "20s asked for", "2m50s ready") // and is available to others
	if h.Migrations != 0 || h.NodesPeak != 2 {
		t.Errorf("%d migrations, at most %d machines, want none and 2", h.Migrations, h.NodesPeak)
	}
}

func TestPodsThatAReplacementCannotHoldStayUntilTheyEnd(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Nodes, sc.Horizon = []scenario.Nodes{nodes("wide", 1)}, 20*m })
	h := simulate(t, sc, &script{plans: plans{20 * s: replace("wide-0", "medium")}}, job("a", 5*gi, 0, 300*s), job("b", 5*gi, 0, 400*s))
	if h.Migrations != 1 || h.Completed != 2 {
		t.Errorf("%d migrations, %d completed, want 1 and 2", h.Migrations, h.Completed)
	}
	h.expect(t, "b", "0s started: wide-0", "6m40s ended: wide-0")
	h.expect(t, "wide-0", "0s asked for", "0s ready", "6m40s asked to go")
}

func TestServicesKeepTheirEndWhenTheyMove(t *testing.T) {
	t.Parallel()
	c := &script{plans: plans{20 * s: migrate("medium-0", "web", "wide-0", "short", "wide-0", "forever", "wide-0")}}
	h := simulate(t, scene(pair), c, service("web", ten, 0, 100*s), service("short", ten, 0, 25*s), service("forever", ten, 0, 0))
	h.expect(t, "web", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "32s moved: wide-0", "1m40s ended: wide-0")
	h.expect(t, "short", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "32s moved: wide-0", "32s ended: wide-0") // its lifetime was over
	h.expect(t, "forever", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "32s moved: wide-0")
}

func TestAnEvictedPodStartsAgainFromZero(t *testing.T) {
	t.Parallel()
	c := &script{plans: plans{40 * s: evict("medium-0")}}
	h := simulate(t, scene(pair), c, job("job", gi, 0, 100*s))
	h.expect(t, "job", "0s started: medium-0", "40s evicted: medium-0", "40s started: wide-0", "2m20s ended: wide-0")
	h.expect(t, "medium-0", "0s asked for", "0s ready", "40s asked to go")
	if h.Evictions != 1 || h.Migrations != 0 || h.LostWork != 40*s || h.Scheduled != 1 || h.Completed != 1 {
		t.Errorf("counts %s, want one eviction that lost 40 s", h.counts())
	}
	if diff := cmp.Diff([]time.Duration{0}, h.Waits); diff != "" {
		t.Errorf("waits, first starts alone (-want +got):\n%s", diff)
	}
	if got := h.Placements[1].Reason; got != "scheduled again after its eviction" {
		t.Errorf("reason %q", got)
	}
}

func TestLostWorkIsCountedAtSpeedOneAndWithWhatWasDoneBeforeAMove(t *testing.T) {
	t.Parallel()
	sc := scene(pair, func(sc *scenario.Scenario) { sc.Flavors[1].Speed = 2 })
	// 20 s of work until it is frozen; from 32 s on twice as fast, to 80 s; then evicted.
	c := &script{plans: plans{20 * s: migrate("medium-0", "job", "wide-0"), 40 * s: buy("medium"), 80 * s: evict("wide-0")}}
	h := simulate(t, sc, c, job("job", ten, 0, 200*s))
	if want := 20*s + 2*48*s; h.LostWork != want {
		t.Errorf("%v of work are lost, want %v", h.LostWork, want)
	}
	h.expect(t, "job", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "32s moved: wide-0", "1m20s evicted: wide-0",
		"3m10s started: medium-1", "6m30s ended: medium-1")
}

func TestAnEvictedPodWaitsLikeAnyOther(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 10 * m })
	c := &script{plans: plans{40 * s: evict("medium-0"), m: buy("medium")}}
	h := simulate(t, sc, c, job("job", gi, 0, 100*s), service("web", gi, 0, 0))
	pending := c.at(t, m).Pending
	if diff := cmp.Diff([]string{"job", "web"}, names(pending)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if p := pending[0]; p.Waited != 20*s || p.Runtime != 100*s || p.Arrival != 40*s {
		t.Errorf("the job waits for %v with %v to go since %v, want 20s, 1m40s, 40s", p.Waited, p.Runtime, p.Arrival)
	}
	if len(c.at(t, m).Recent) != 2 {
		t.Error("an eviction counts as an arrival")
	}
	h.expect(t, "web", "0s started: medium-0", "40s evicted: medium-0", "3m30s started: medium-1")
	if h.LostWork != 40*s { // that of the job; a service has no work to lose
		t.Errorf("%v of work are lost, want 40 s", h.LostWork)
	}
}

func TestAnEvictedServiceEndsWhenItWouldHaveEnded(t *testing.T) {
	t.Parallel()
	h := simulate(t, scene(pair), &script{plans: plans{40 * s: evict("medium-0")}}, service("web", gi, 0, 100*s))
	h.expect(t, "web", "0s started: medium-0", "40s evicted: medium-0", "40s started: wide-0", "1m40s ended: wide-0")
}

func TestItEndsThenEvenWhileItWaits(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 10 * m })
	c := &script{plans: plans{40 * s: evict("medium-0"), 120 * s: buy("medium")}}
	h := simulate(t, sc, c, service("web", gi, 0, 100*s))
	h.expect(t, "web", "0s started: medium-0", "40s evicted: medium-0", "1m40s ended")
	if h.Completed != 1 || h.Pending != 0 || len(c.at(t, 120*s).Pending) != 0 {
		t.Errorf("%d completed, %d pending, want 1 and 0", h.Completed, h.Pending)
	}
}

// restless gives each pod its own machine for 19 s of every 20 s.
func restless(pod func(st *cluster.State) bool) *script {
	return &script{each: func(_ time.Duration, st *cluster.State) cluster.Plan {
		plan := cluster.Plan{Wake: 20 * s}
		if len(st.Nodes) > 0 && len(st.Nodes[0].Pods) > 0 {
			plan = evict(st.Nodes[0].Name)
		}
		if pod(st) {
			plan.Buy = buy("medium").Buy
		}
		return plan
	}}
}

func quick(sc *scenario.Scenario) { sc.AcquisitionLag, sc.MaxNodes = scenario.Lag{Mean: s}, 2 }

func TestABatchPodEvictedTooOftenIsAbandoned(t *testing.T) {
	t.Parallel()
	c := restless(func(*cluster.State) bool { return true })
	h := simulate(t, scene(quick), c, job("job", gi, 0, 100*s))
	if h.Failed != 1 || h.Evictions != 101 || h.Completed != 0 || h.Pending != 0 || h.Submitted != 1 || h.Scheduled != 1 {
		t.Errorf("counts %s, want one pod failed after 101 evictions", h.counts())
	}
	// Nothing at 0, 19 s after each purchase.
	if want := 100 * 19 * s; h.LostWork != want {
		t.Errorf("%v of work are lost, want %v", h.LostWork, want)
	}
}

func TestAServiceIsNeverAbandoned(t *testing.T) {
	t.Parallel()
	c := restless(func(*cluster.State) bool { return true })
	sc := scene(quick, func(sc *scenario.Scenario) { sc.Horizon = time.Hour })
	h := simulate(t, sc, c, service("web", gi, 0, 0))
	if h.Failed != 0 || h.Evictions < 150 || h.Completed != 0 {
		t.Errorf("counts %s, want a service that starts again after each of 180 evictions", h.counts())
	}
}

// TestServicesThatGoRoundDoNotKeepARunGoing: a batch pod waits forever, and a service is evicted
// and restarted forever.
func TestServicesThatGoRoundDoNotKeepARunGoing(t *testing.T) {
	t.Parallel()
	c := restless(func(*cluster.State) bool { return true })
	h := simulate(t, scene(quick), c, job("big", 9*gi, 0, 100*s), service("web", gi, 0, 0))
	if h.Pending == 0 || h.Completed != 0 || h.Evictions == 0 {
		t.Errorf("counts %s, want the job pending and the service evicted", h.counts())
	}
}

func TestReplacedClassesAreKept(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 20 * m })
	plan := replace("medium-0", "medium")
	plan.Drains[0].Replacement.Class = class.Service
	h := simulate(t, sc, &script{plans: plans{20 * s: plan}}, job("job", ten, 0, 300*s), service("web", ten, 0, 0))
	h.expect(t, "job", "0s started: medium-0", "5m0s ended: medium-0") // the new machine accepts only services
	if got := fmt.Sprint(h.story("web")); got != "[0s started: medium-0 2m50s frozen, on its way to the node: medium-1 3m2s moved: medium-1]" {
		t.Errorf("what became of web: %s", got)
	}
}
