package sim_test

import (
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

func TestARunEndsWhenNobodyBuysForThePodsThatWait(t *testing.T) {
	t.Parallel()
	c := &script{}
	h := simulate(t, scene(), c, job("big", 9*gi, 0, m), job("job", gi, 0, 90*s))
	if h.Pending != 1 || h.Completed != 1 || h.Over != 90*s || h.CostMicroDollars != 2*dollar {
		t.Errorf("%s; over at %v for %d micro-dollars, want the big pod pending and the bill of 90 s", h.counts(), h.Over, h.CostMicroDollars)
	}
	// 20 rounds and ten lags after the last step, the maximum start-up time of a machine.
	last, patience := c.interval[len(c.interval)-1].At, 20*m+10*150*s
	if last < 90*s+patience || last > 90*s+patience+2*m {
		t.Errorf("abandoned after %v, want about %v", last, 90*s+patience)
	}
}

func TestThatCountsFromTheHorizonAtTheEarliest(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 2 * time.Hour })
	c := &script{plans: plans{2*time.Hour + 30*m: buy("wide")}}
	h := simulate(t, sc, c, job("big", 9*gi, 0, m))
	if h.Completed != 1 || h.Over != 2*time.Hour+30*m+150*s+m {
		t.Errorf("%s; over at %v, want the pod done a minute after its machine came", h.counts(), h.Over)
	}
}

func TestAFixedClusterWithPodsThatWaitWithoutSuccessEnds(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Autoscale, sc.Horizon = false, 10*m })
	h := simulate(t, sc, &script{}, service("web", 4*gi, 0, 0), job("waits", 6*gi, s, m), service("short", gi, 0, 20*m))
	if h.Pending != 1 || h.Completed != 1 || h.Over != 20*m || h.Makespan != 0 {
		t.Errorf("%s; over at %v, makespan %v, want one pending, and the end with the last that could make room", h.counts(), h.Over, h.Makespan)
	}
}

func TestWhatIsDoneWithoutSuccessAfterTheLastStepIsNotPaid(t *testing.T) {
	t.Parallel()
	c := &script{plans: plans{5 * m: buy("medium"), 10 * m: releaseOf("medium-0")}}
	h := simulate(t, scene(), c, job("big", 9*gi, 0, m), job("job", gi, 0, 90*s))
	if h.Over != 90*s || h.CostMicroDollars != 2*dollar {
		t.Errorf("over at %v for %d micro-dollars, want two dollars until 1m30s", h.Over, h.CostMicroDollars)
	}
	n := len(h.Samples)
	if end := time.Duration(n-1) * h.Step; end < h.Over || end >= h.Over+h.Step || h.Samples[n-1].CostMicroDollars != 2*dollar {
		t.Errorf("the last of %d samples every %v shows %+v, want the end", n, h.Step, h.Samples[n-1])
	}
}

func TestScenariosThatWouldTakeTooLongAreRefused(t *testing.T) {
	t.Parallel()
	year := 365 * 24 * time.Hour
	tests := []struct {
		name   string
		change func(*scenario.Scenario)
		pod    scenario.Pod
		want   []string
	}{
		{"a horizon of many scheduling intervals", func(sc *scenario.Scenario) { sc.Horizon, sc.SchedulingInterval = 2_000_001*s, s }, job("p", gi, 0, s),
			[]string{"spec.horizon: ", "2000000 times", "spec.schedulingInterval", "1s; use longer"}},
		{"a horizon of many scaling intervals", func(sc *scenario.Scenario) { sc.Horizon, sc.ScalingInterval = time.Hour, time.Millisecond }, job("p", gi, 0, s),
			[]string{"spec.horizon: 1h0m0s", "1ms; use longer"}},
		{"work of many intervals", func(sc *scenario.Scenario) { sc.SchedulingInterval = s }, job("p", gi, 0, year),
			[]string{"spec.horizon: pod p may run until 8760h", "4000000 times", "1s; use longer"}},
		{"a job that declares ten years", func(sc *scenario.Scenario) { sc.SchedulingInterval, sc.ScalingInterval = 30*s, 30*s }, job("p", gi, 0, 10*year-m),
			[]string{"spec.horizon: pod p may run until 87", "4000000 times", "30s; use longer intervals or a shorter runtime"}},
		{"work that a machine takes too long for", func(sc *scenario.Scenario) { sc.Flavors[1].Speed = 0.001 }, job("p", gi, 0, year),
			[]string{"spec.flavors: pod p would run for 8760000h on wide, which has speed 0.001: must be at most 87600h"}},
		{"a copy that takes too long", func(sc *scenario.Scenario) { sc.Migration.BitsPerSecond = 1 }, job("p", gi<<10, 0, m),
			[]string{"spec.migration: moving pod p would take 2443", "must be at most 87600h"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			sc := scene(tc.change)
			pods := []scenario.Pod{job("small", 1, 0, 1), tc.pod}
			_, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Policy: fixed(stock)})
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want it to contain %s", err, want)
				}
			}
		})
	}
}

func TestScenariosAtTheBoundsAreAccepted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*scenario.Scenario){
		"horizon": func(sc *scenario.Scenario) { sc.Horizon, sc.SchedulingInterval = 2_000_000*s, s },
		"fixed":   func(sc *scenario.Scenario) { sc.Autoscale, sc.SchedulingInterval = false, s },
	} {
		pods := []scenario.Pod{job("p", gi, 0, s)}
		if name == "fixed" { // without a controller, the possible number of decisions does not matter
			pods[0].Runtime = 9 * 365 * 24 * time.Hour
		}
		if _, err := sim.Run(t.Context(), sim.Input{Scenario: scene(change), Pods: pods, Policy: fixed(stock)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestARunOfCenturiesIsStopped runs pods of ten years each, one after another.
func TestARunOfCenturiesIsStopped(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Autoscale = false })
	var pods []scenario.Pod
	for i := range 40 {
		pods = append(pods, job(string(rune('a'+i)), 8*gi, 0, scenario.MaxDuration))
	}
	_, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Policy: fixed(stock)})
	if err == nil || !strings.Contains(err.Error(), "has not ended after 1752000h") {
		t.Errorf("error %v, want that the run has not ended after 200 years", err)
	}
}

func TestALagWithoutTimeStillTakesAMoment(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.AcquisitionLag, sc.Nodes = scenario.Lag{}, nil })
	rounds := 0
	c := &script{each: func(_ time.Duration, st *cluster.State) cluster.Plan {
		if rounds++; len(st.Pending) > 0 {
			return buy("medium")
		}
		return cluster.Plan{}
	}}
	h := simulate(t, sc, c, job("job", gi, 0, m))
	h.expect(t, "medium-0", "0s asked for", "1ns ready")
	h.expect(t, "job", "1ns started: medium-0", "1m0.000000001s ended: medium-0")
}
