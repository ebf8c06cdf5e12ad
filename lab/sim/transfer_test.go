package sim_test

import (
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/scenario"
)

// transfer moves one pod with the given saving in joules.
func transfer(pod, from, to string, method cluster.Method, joules float64) cluster.Plan {
	return cluster.Plan{Transfers: []cluster.Transfer{{Pod: pod, From: from, To: to, Method: method, Joules: joules, Reason: "the script says so"}}}
}

// asArm gives the second machine another architecture and half the speed.
func asArm(sc *scenario.Scenario) {
	pair(sc)
	sc.Flavors[1].Arch, sc.Flavors[1].Speed = "arm64", 0.5
}

func TestASinglePodMovesAndItsNodeStays(t *testing.T) {
	t.Parallel()
	c := &script{plans: plans{20 * s: transfer("job", "medium-0", "wide-0", cluster.Migrate, 30)}}
	h := simulate(t, scene(pair), c, job("job", ten, 0, 100*s), job("next", 8*gi, 40*s, s))
	h.expect(t, "job", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "32s moved: wide-0", "1m52s ended: wide-0")
	h.expect(t, "next", "40s started: medium-0", "41s ended: medium-0")
	if h.Migrations != 1 || h.Evictions != 0 || h.LostWork != 0 || h.Frozen != 12*s || h.SavedJoules != 30 || h.AddedJoules != 0 {
		t.Errorf("counts %s; frozen for %v, saved %v J, added %v J", h.counts(), h.Frozen, h.SavedJoules, h.AddedJoules)
	}
}

// TestAPodThatIsEvictedBeginsFromTheBeginningWhereTheSchedulerPlacesIt has a scheduler that prefers the machine that it
// came from, until that is closed.
func TestAPodThatIsEvictedBeginsFromTheBeginningWhereTheSchedulerPlacesIt(t *testing.T) {
	t.Parallel()
	again := transfer("job", "medium-0", "wide-0", cluster.Evict, -7)
	closed := again
	closed.Drains = []cluster.Drain{{Node: "medium-0", Method: cluster.Wait, Until: 1000 * s, CordonOnly: true}}
	for name, tc := range map[string]struct {
		plan    cluster.Plan
		node    string
		ends    string
		runtime time.Duration
	}{
		"to the same machine":      {again, "medium-0", "2m0s", 120 * s},
		"to one of half its speed": {closed, "wide-0", "3m40s", 220 * s},
	} {
		t.Run(name, func(t *testing.T) {
			h := simulate(t, scene(asArm), &script{plans: plans{20 * s: tc.plan}}, job("job", ten, 0, 100*s))
			h.expect(t, "job", "0s started: medium-0", "20s evicted: medium-0", "20s started: "+tc.node, tc.ends+" ended: "+tc.node)
			if h.Migrations != 0 || h.Evictions != 1 || h.LostWork != 20*s || h.SavedJoules != 0 || h.AddedJoules != 7 {
				t.Errorf("counts %s; saved %v J, added %v J", h.counts(), h.SavedJoules, h.AddedJoules)
			}
			if got := h.Runtimes; len(got) != 1 || got[0] != tc.runtime {
				t.Errorf("runtimes %v, want %v from the first start", got, tc.runtime)
			}
			if p := h.Placements[1]; p.Node != tc.node || p.Reason != "scheduled again after its eviction" {
				t.Errorf("placement %+v", p)
			}
		})
	}
}

func TestAMoveThatCannotBeMadeIsAFaultOfThePlan(t *testing.T) {
	t.Parallel()
	twice := transfer("job", "medium-0", "wide-0", cluster.Migrate, 0)
	twice.Transfers = append(twice.Transfers, twice.Transfers[0])
	for name, tc := range map[string]struct {
		plan   cluster.Plan
		memory int64
		scene  func(*scenario.Scenario)
	}{
		"no such pod":                       {transfer("other", "medium-0", "wide-0", cluster.Migrate, 0), gi, pair},
		"not on that node":                  {transfer("job", "wide-0", "medium-0", cluster.Migrate, 0), gi, pair},
		"no such node":                      {transfer("job", "medium-0", "wide-1", cluster.Evict, 0), gi, pair},
		"where it is":                       {transfer("job", "medium-0", "medium-0", cluster.Migrate, 0), gi, pair},
		"with its state to another machine": {transfer("job", "medium-0", "wide-0", cluster.Migrate, 0), gi, asArm},
		"on its way already":                {twice, gi, pair},
		"no room": {transfer("job", "medium-0", "wide-0", cluster.Evict, 0), 6 * gi, func(sc *scenario.Scenario) {
			pair(sc)
			sc.Flavors[1].Size.MemoryBytes = 8*gi + 1
		}},
	} {
		jobs := []scenario.Pod{job("job", tc.memory, 0, 100*s), job("full", 3*gi, 0, 100*s)}
		if _, err := try(t, scene(tc.scene), &script{plans: plans{20 * s: tc.plan}}, jobs...); err == nil || !strings.Contains(err.Error(), "the plan cannot be carried out") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestAPodMovesAsItDeclares checks what a controller observes before and after a job is evicted.
func TestAPodMovesAsItDeclares(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		says        scenario.Migratable
		asks, fixed bool
		ways, then  cluster.Ways
		service     bool
	}{
		{scenario.MoveAsLiked, true, false, 0, 0, false},
		{scenario.MoveWithState, true, false, cluster.WaysOf(cluster.Migrate), cluster.WaysOf(cluster.Migrate), false},
		{scenario.MoveByRestart, true, false, cluster.WaysOf(cluster.Evict), cluster.WaysOf(cluster.Wait), false},
		{scenario.MoveByRestart, true, false, cluster.WaysOf(cluster.Evict), cluster.WaysOf(cluster.Evict), true},
		{scenario.MoveNever, true, true, 0, 0, false},
		{scenario.MoveNever, false, false, 0, 0, false},
	} {
		c := &script{asks: tc.asks, plans: plans{20 * s: transfer("job", "medium-0", "wide-0", cluster.Evict, 0), 40 * s: {}}}
		asked := job("job", ten, 0, 100*s)
		if tc.service { // it has no end to reach
			asked = service("job", ten, 0, 100*s)
		}
		asked.Migration = tc.says
		simulate(t, scene(pair), c, asked)
		before, after := podOf(t, nodeOf(t, c.at(t, 20*s), "medium-0"), "job"), podOf(t, nodeOf(t, c.at(t, 40*s), "medium-0"), "job")
		if before.Ways != tc.ways || before.Fixed != tc.fixed || after.Ways != tc.then || after.Fixed != tc.fixed {
			t.Errorf("%q, asked: %t: ways %v, then %v, fixed %t, then %t; want %v, then %v, fixed %t",
				tc.says, tc.asks, before.Ways, after.Ways, before.Fixed, after.Fixed, tc.ways, tc.then, tc.fixed)
		}
	}
}

// TestWhatAPodStillRunsIsOfItsMachine: 100 s of work at half the speed, of which 20 s have passed,
// then at double speed.
func TestWhatAPodStillRunsIsOfItsMachine(t *testing.T) {
	t.Parallel()
	sc := scene(pair, func(sc *scenario.Scenario) { sc.Flavors[0].Speed, sc.Flavors[1].Speed = 0.5, 2 })
	c := &script{plans: plans{20 * s: transfer("job", "medium-0", "wide-0", cluster.Migrate, 0), 40 * s: {}}}
	h := simulate(t, sc, c, job("job", ten, 0, 100*s))
	if p := podOf(t, nodeOf(t, c.at(t, 20*s), "medium-0"), "job"); p.Runtime != 180*s || p.Ran != 20*s {
		t.Errorf("it needs %v and has run for %v, want 3m and 20s", p.Runtime, p.Ran)
	}
	// 90 s of work at double speed from 32 s on; 26 s are done at 40 s, equal to 13 s here.
	if p := podOf(t, nodeOf(t, c.at(t, 40*s), "wide-0"), "job"); p.Runtime != 37*s || p.Ran != 13*s {
		t.Errorf("it needs %v and has run for %v, want 37s and 13s", p.Runtime, p.Ran)
	}
	if h.Makespan != 77*s {
		t.Errorf("it ends at %v, want 1m17s", h.Makespan)
	}
}

func TestTheWeightOfEnergyIsThatOfThePodElseOfItsNamespace(t *testing.T) {
	t.Parallel()
	green, own := 0.75, 0.25
	sc := scene(pair, func(sc *scenario.Scenario) {
		sc.Namespaces = []scenario.Namespace{{Name: "green", EnergyWeight: &green}, {Name: "plain"}, {Name: "default", EnergyWeight: &own}}
	})
	names := map[string]*float64{"both": &own, "green": &green, "plain": nil, "other": nil, "nowhere": &own}
	var jobs []scenario.Pod
	for name := range names {
		p := job(name, gi, 0, 100*s)
		p.Namespace = map[string]string{"both": "green", "nowhere": ""}[name]
		if name == "both" {
			p.EnergyWeight = &own
		} else if name != "nowhere" {
			p.Namespace = name
		}
		jobs = append(jobs, p)
	}
	c := &script{plans: plans{20 * s: {}}}
	simulate(t, sc, c, jobs...)
	st := c.at(t, 20*s)
	for name, want := range names {
		var got *float64
		for _, n := range st.Nodes {
			for _, p := range n.Pods {
				if p.Name == name {
					got = p.EnergyWeight
				}
			}
		}
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("the weight of %s is %v, want %v", name, got, want)
		}
	}
}
