package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/manifests"
)

func TestTheControllerIsAskedAfterSomethingHasHappenedAndElseNot(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = time.Hour })
	tests := []struct {
		name string
		c    *script
		pods []scenario.Pod
		want []time.Duration
	}{
		{"at the start alone", &script{}, nil, []time.Duration{0}},
		{"after an arrival and an end", &script{}, []scenario.Pod{job("a", gi, 5*s, 100*s)}, []time.Duration{0, 20 * s, 120 * s}},
		{"after an arrival at an interval, at the next, which shows the end then", &script{}, []scenario.Pod{job("a", gi, 20*s, 20*s)}, []time.Duration{0, 40 * s}},
		{"when it wants to, at the interval after that", &script{plans: plans{70 * s: {}}}, nil, []time.Duration{0, 80 * s}},
		{"after an order, when the machine is ready", &script{plans: plans{0: buy("medium")}}, nil, []time.Duration{0, 160 * s}},
		{"after a release, when the machine is gone", &script{plans: plans{0: releaseOf("medium-0")}}, nil, []time.Duration{0, 20 * s}},
		{"not after an end that a move has put off", &script{plans: plans{20 * s: migrate("medium-0", "a", "wide-0")}},
			[]scenario.Pod{job("a", ten, 5*s, 50*s)}, []time.Duration{0, 20 * s, 40 * s, 80 * s}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name == "not after an end that a move has put off" {
				sc = scene(pair, func(sc *scenario.Scenario) { sc.Horizon = 5 * m })
			}
			simulate(t, sc, tc.c, tc.pods...)
			if diff := cmp.Diff(tc.want, tc.c.times()); diff != "" {
				t.Errorf("asked at (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhilePodsWaitTheControllerIsAskedEveryRound(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon, sc.ScalingInterval = 5*m, 50*s }) // not a multiple of the other
	c := &script{}
	simulate(t, sc, c, service("big", 9*gi, 10*s, 0))
	want := []time.Duration{0, 20 * s, 50 * s, 100 * s, 150 * s, 200 * s, 250 * s, 300 * s}
	if diff := cmp.Diff(want, c.times()); diff != "" {
		t.Errorf("asked at (-want +got):\n%s", diff)
	}
	for _, l := range c.interval {
		if l.State.Scaling != (l.At%(50*s) == 0) {
			t.Errorf("at %v Scaling is %t", l.At, l.State.Scaling)
		}
	}
}

func TestEveryDecisionIsAtAnInterval(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon, sc.Nodes[0].Count = time.Hour, 4 })
	c := &script{}
	h := simulate(t, sc, c, workload(100, 3)...)
	rounds := int64(0)
	for _, l := range c.interval {
		if l.At%(20*s) != 0 {
			t.Errorf("asked at %v, which is no multiple of 20 s", l.At)
		}
		if l.State.Scaling != (l.At%m == 0) {
			t.Errorf("at %v Scaling is %t", l.At, l.State.Scaling)
		}
		if l.State.Scaling {
			rounds++
		}
	}
	if len(c.interval) < 50 || h.Events["scalingRounds"] != rounds {
		t.Errorf("asked %d times, %d rounds are counted and %d were", len(c.interval), h.Events["scalingRounds"], rounds)
	}
}

func TestTheControllerSeesTheScenario(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) {
		sc.Flavors = []scenario.Flavor{wide, medium} // shown by name
		sc.Migration = scenario.Migration{BitsPerSecond: 1, BytesPerMemory: 2, Fixed: 3}
	})
	c := &script{}
	simulate(t, sc, c)
	got := *c.at(t, 0)
	want := cluster.State{
		Nodes: []cluster.Node{{
			Name: "medium-0", Flavor: "medium", Class: class.Any, Capacity: packing.Size{MilliCPU: 2000, MemoryBytes: 8 * gi}, MaxPods: new(int64(110)),
			Arch: "amd64", MicroDollarsPerHour: 60 * dollar, Phase: cluster.Ready, Pods: []cluster.Pod{},
		}},
		Pending: []cluster.Pod{},
		Flavors: []cluster.Flavor{
			{Name: "medium", Size: medium.Size, MaxPods: new(int64(110)), Arch: "amd64", MicroDollarsPerHour: 60 * dollar},
			{Name: "wide", Size: wide.Size, MaxPods: new(int64(110)), Arch: "amd64", MicroDollarsPerHour: 120 * dollar},
		},
		MaxNodes: 10, Lag: 150 * s, Release: 5 * s, BillingPeriod: m,
		Migration:       cluster.Migration{BitsPerSecond: 1, BytesPerMemory: 2, Fixed: 3},
		ScalingInterval: m, SchedulingInterval: 20 * s, Scaling: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestPendingAndRunningPodsAreShownByName(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 5 * m })
	arm := service("z-arm", gi, 11*s, 0)
	arm.Arch = "arm64"
	sc.Flavors[1].Arch = "arm64"
	c := &script{plans: plans{40 * s: {}}}
	simulate(t, sc, c, job("z", gi, s, 100*s), job("a", gi, 2*s, 100*s), arm, job("b-big", 7*gi, 10*s, 70*s), service("web", gi, 3*s, 0))
	st := c.at(t, 40*s)
	want := []cluster.Pod{
		{Item: packing.Item{Name: "b-big", Size: packing.Size{MilliCPU: 100, MemoryBytes: 7 * gi}, Arrival: 10 * s, Runtime: 70 * s}, Class: class.Batch, Waited: 30 * s},
		{Item: packing.Item{Name: "z-arm", Size: packing.Size{MilliCPU: 100, MemoryBytes: gi}, Arrival: 11 * s}, Class: class.Service, Arch: "arm64", Waited: 29 * s},
	}
	if diff := cmp.Diff(want, st.Pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	n := nodeOf(t, st, "medium-0")
	if diff := cmp.Diff([]string{"a", "web", "z"}, names(n.Pods)); diff != "" {
		t.Errorf("pods on the node (-want +got):\n%s", diff)
	}
	if p := podOf(t, n, "a"); p.Ran != 38*s || p.Runtime != 62*s || p.Fixed || p.Class != class.Batch {
		t.Errorf("the job is %+v, want that it ran for 38 s and needs 62 s", p)
	}
	if p := podOf(t, n, "web"); p.Ran != 0 || p.Runtime != 0 || p.Class != class.Service {
		t.Errorf("the service is %+v, want no times", p)
	}
}

func TestRuntimesAreLearnedByCategoryAndOverdueJobsNeedNothing(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 30 * m })
	in := func(category string, p scenario.Pod) scenario.Pod {
		p.Category = category
		return p
	}
	c := &script{plans: plans{40 * s: {}, 240 * s: {}, 320 * s: {}}}
	simulate(t, sc, c,
		in("render", job("first", gi, 0, 100*s)), in("render", job("second", gi, 200*s, 300*s)),
		in("render", service("service", gi, 0, 10*s)), in("", job("plain", gi, 0, 50*s)))
	for at, want := range map[time.Duration]string{
		40 * s:  "first 9m20s, plain 10s, ", // nothing is known: the default of ten minutes
		240 * s: "second 1m0s, ",
		320 * s: "second 0s, ",
	} {
		got := ""
		for _, p := range nodeOf(t, c.at(t, at), "medium-0").Pods {
			got += fmt.Sprint(p.Name, " ", p.Runtime, ", ")
		}
		if got != want {
			t.Errorf("at %v the pods need %s want %s", at, got, want)
		}
	}
}

func TestRecentPodsAreThoseOfTheLastLagAndRoundTheLastFirst(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 10 * m }) // 150 s and 60 s
	c := &script{plans: plans{60 * s: {}, 220 * s: {}, 240 * s: {}}}
	simulate(t, sc, c,
		job("first", gi, 0, 10*s), service("second", gi, 10*s, 0), job("waits", 9*gi, 30*s, m), job("impossible", 99*gi, 40*s, m), job("last", gi, 50*s, 70*s))
	for at, want := range map[time.Duration][]string{
		0:       {"first"},
		60 * s:  {"last", "waits", "second", "first"},
		220 * s: {"last", "waits", "second"},
		240 * s: {"last", "waits"},
	} {
		st := c.at(t, at)
		if diff := cmp.Diff(want, names(st.Recent)); diff != "" {
			t.Errorf("recent at %v (-want +got):\n%s", at, diff)
		}
		if observed := min(at, 210*s); st.Observed != observed {
			t.Errorf("at %v arrivals have been watched for %v, want %v", at, st.Observed, observed)
		}
		for _, p := range st.Recent {
			if p.Waited != at-p.Arrival {
				t.Errorf("at %v pod %s came %v ago, want %v", at, p.Name, p.Waited, at-p.Arrival)
			}
		}
	}
	if last := c.at(t, 60*s).Recent[0]; last.Runtime != 70*s || last.Class != class.Batch {
		t.Errorf("the last pod is %+v, want a batch pod of 70 s", last)
	}
}

func TestTheQueueIsEmptyFromWhenNoBatchPodWasSeenWaiting(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 10 * m })
	c := &script{plans: plans{60 * s: {}, 120 * s: {}, 140 * s: {}, 300 * s: {}}}
	simulate(t, sc, c, job("runs", 6*gi, 70*s, 60*s), job("waits", 6*gi, 80*s, 10*s), service("web", 7*gi, 90*s, 0))
	for at, want := range map[time.Duration]time.Duration{60 * s: m, 120 * s: 0, 140 * s: 20 * s, 300 * s: 3 * m} {
		if got := c.at(t, at).QueueEmpty; got != want {
			t.Errorf("at %v the queue has been empty for %v, want %v", at, got, want)
		}
	}
}

func TestWithoutAutoscalingTheControllerIsNotAsked(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Autoscale, sc.Horizon = false, 10*m })
	c := &script{}
	h := simulate(t, sc, c, service("big", 9*gi, 0, 0), job("job", gi, 0, m))
	if len(c.interval) != 0 || h.Events["scalingRounds"] != 0 {
		t.Errorf("the controller was asked at %v", c.times())
	}
}

func TestEachRunHasAControllerOfItsOwn(t *testing.T) {
	t.Parallel()
	var made []*scenario.Scenario
	p := fixed(manifests.InOrderSchedulerConfig)
	p.Controller = func(sc *scenario.Scenario) sim.Controller {
		made = append(made, sc)
		return &script{}
	}
	sc := scene()
	for range 2 {
		run(t, sim.Input{Scenario: sc, Policy: p})
	}
	if !slices.Equal(made, []*scenario.Scenario{sc, sc}) {
		t.Errorf("%d controllers were made, want one for each of two runs, for its scenario", len(made))
	}
}

func TestAPromptControllerIsAskedSoonerAndPodsAreNotTriedSooner(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = time.Hour })
	c := &script{}
	p := c.policy()
	p.Interval = func(*scenario.Scenario) time.Duration { return s }
	// The second pod waits until the first has ended.
	r := run(t, sim.Input{Scenario: sc, Policy: p, Pods: []scenario.Pod{job("a", 6*gi, 5*s+s/2, 20*s), job("b", 6*gi, 6*s, 300*s)}})
	want := []time.Duration{0, 6 * s, 26 * s, 40 * s}
	got := c.times()
	if diff := cmp.Diff(want, got[:min(4, len(got))]); diff != "" {
		t.Errorf("asked at (-want +got):\n%s", diff)
	}
	if len(r.Waits) != 2 || r.Waits[1] != 34*s {
		t.Errorf("pods waited for %v, want the second to be tried at 40 s", r.Waits)
	}
}
