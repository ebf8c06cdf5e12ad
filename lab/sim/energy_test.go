package sim_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// TestEnergyIsThatOfATwinThatLooksEverySecond starts and ends pods at whole seconds, so that a twin
// that samples once per second, without events, is exact.
func TestEnergyIsThatOfATwinThatLooksEverySecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sc := scene(func(sc *scenario.Scenario) {
			sc.Autoscale, sc.Horizon, sc.Nodes = false, 90*s, []scenario.Nodes{nodes("wide", 1)}
			f := &sc.Flavors[1]
			f.MilliwattsIdle = rapid.Int64Range(0, 50_000).Draw(t, "idle")
			f.MilliwattsFull = f.MilliwattsIdle + rapid.Int64Range(0, 90_000).Draw(t, "rise")
			for i := range rapid.IntRange(0, 3).Draw(t, "points") {
				lowest := f.MilliwattsIdle
				if i > 0 {
					lowest = f.PowerCurve[i-1].Milliwatts
				}
				f.PowerCurve = append(f.PowerCurve, scenario.PowerPoint{
					Utilization: float64(i)/4 + rapid.Float64Range(0.05, 0.2).Draw(t, "utilization"),
					Milliwatts:  rapid.Int64Range(lowest, f.MilliwattsFull).Draw(t, "milliwatts"),
				})
			}
		})
		sc.Electricity = []scenario.Electricity{{
			DollarsPerKWh: scenario.Course{{Value: 0.25}},
			GramsPerKWh:   scenario.Course{{Value: 400}, {From: time.Duration(rapid.IntRange(1, 100).Draw(t, "step")) * s, Value: 30}},
		}}
		var pods []scenario.Pod
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			p := job(fmt.Sprint("p", i), gi, time.Duration(rapid.IntRange(0, 90).Draw(t, "arrival"))*s, time.Duration(rapid.IntRange(1, 60).Draw(t, "runtime"))*s)
			p.Size.MilliCPU = rapid.Int64Range(0, 600).Draw(t, "cpu") // all fit at once
			pods = append(pods, p)
		}
		slices.SortStableFunc(pods, func(a, b scenario.Pod) int { return cmp.Compare(a.Arrival, b.Arrival) })
		r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Policy: fixed(stock), Pods: pods})
		if err != nil {
			t.Fatal(err)
		}
		want, grams := 0.0, 0.0
		for second := time.Duration(0); second < r.Over; second += s {
			used := int64(0)
			for _, p := range pods {
				if p.Arrival <= second && second < p.Arrival+p.Runtime {
					used += p.Size.MilliCPU
				}
			}
			joules := milliwatts(&sc.Flavors[1], float64(used)/4000) / 1000
			want += joules
			if second < sc.Electricity[0].GramsPerKWh[1].From {
				grams += joules / 3.6e6 * 400
			} else {
				grams += joules / 3.6e6 * 30
			}
		}
		if dollars := want / 3.6e6 * 0.25; !near(r.CarbonGrams, grams) || !near(r.ElectricityDollars, dollars) {
			t.Errorf("%v g and $%v, the twin has %v g and $%v", r.CarbonGrams, r.ElectricityDollars, grams, dollars)
		}
		if !near(r.EnergyJoules, want) {
			t.Errorf("%v J, the twin has %v", r.EnergyJoules, want)
		}
	})
}

// sleepy returns a fixed cluster of one machine that idles at 50 W, draws 90 W at full load and 130
// W for the 30 s in which it wakes from a standby of 5 W. It lasts for 200 s.
func sleepy(sc *scenario.Scenario) {
	sc.Autoscale, sc.Horizon = false, 200*s
	f := &sc.Flavors[0]
	f.MilliwattsIdle, f.MilliwattsFull = 50_000, 90_000
	f.Standby = &scenario.Standby{Milliwatts: 5000, Wake: 30 * s, WakeMilliwatts: 130_000}
}

func sleeping(nodes ...string) cluster.Plan {
	var plan cluster.Plan
	for _, n := range nodes {
		plan.Suspend = append(plan.Suspend, cluster.Stay{Node: n, Reason: "nobody needs it"})
	}
	return plan
}

func waking(nodes ...string) cluster.Plan {
	return cluster.Plan{Resume: sleeping(nodes...).Suspend}
}

func TestAMachineAsleepTakesNoPodsUntilItHasWoken(t *testing.T) {
	t.Parallel()
	c := &script{standby: true, plans: plans{20 * s: sleeping("medium-0"), 60 * s: waking("medium-0")}}
	pod := job("job", gi, 40*s, 50*s)
	pod.Size.MilliCPU = 1000 // half of the machine
	h := simulate(t, scene(sleepy), c, pod)
	h.tells(t, "medium-0", "0s asked for", "0s ready", "20s put to sleep", "1m0s woken", "1m30s ready")
	h.tells(t, "job", "1m30s started: medium-0", "2m20s ended: medium-0")
	for at, want := range map[time.Duration]cluster.Phase{20 * s: cluster.Ready, 60 * s: cluster.Asleep, 100 * s: cluster.Ready} {
		if n := nodeOf(t, c.at(t, at), "medium-0"); n.Phase != want {
			t.Errorf("at %v the controller sees phase %d, want %d", at, n.Phase, want)
		}
	}
	idle, standby, tasks := 50.0*(20+110), 5.0*40+130*30, 20.0*50
	if e := h.Energy[0]; !near(h.EnergyJoules, idle+standby+tasks) || !near(e.IdleJoules, idle) || !near(e.StandbyJoules, standby) || !near(e.TaskJoules, tasks) {
		t.Errorf("%v J, %+v; want %v idle, %v in standby and %v of the task", h.EnergyJoules, *e, idle, standby, tasks)
	}
	if h.EndWatts != 50 {
		t.Errorf("%v W at the end, want 50", h.EndWatts)
	}
}

func TestAMachineMaySleepToTheEnd(t *testing.T) {
	t.Parallel()
	h := simulate(t, scene(sleepy), &script{standby: true, plans: plans{20 * s: sleeping("medium-0")}}, job("job", gi, 0, 10*s))
	if want := 50*20 + 40*0.05*10 + 5*180; !near(h.EnergyJoules, want) || h.EndWatts != 5 {
		t.Errorf("%v J, and %v W at the end; want %v J and 5 W", h.EnergyJoules, h.EndWatts, want)
	}
}

func TestOnlyWhatCanSleepIsPutToSleepAndOnlyWhatSleepsIsWoken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan   cluster.Plan
		change func(*scenario.Scenario)
	}{
		"a machine with a pod":         {plan: sleeping("medium-0")},
		"a machine that is unknown":    {plan: sleeping("medium-7")},
		"a machine without standby":    {plan: sleeping("wide-0"), change: func(sc *scenario.Scenario) { sc.Nodes = append(sc.Nodes, nodes("wide", 1)) }},
		"the same machine twice":       {plan: sleeping("medium-1", "medium-1"), change: func(sc *scenario.Scenario) { sc.Nodes[0].Count = 2 }},
		"a machine that is awake":      {plan: waking("medium-0")},
		"a machine is bought after it": {plan: buy("medium")},
	} {
		sc := scene(sleepy)
		if tc.change != nil {
			tc.change(sc)
		}
		pods := []scenario.Pod{job("job", gi, 0, 100*s)}
		pods[0].Size.MemoryBytes = 8 * gi // best fit puts it there: on the smallest machine, by name
		_, err := try(t, sc, &script{standby: true, plans: plans{20 * s: tc.plan}}, pods...)
		if err == nil || !strings.Contains(err.Error(), "the plan cannot be carried out") {
			t.Errorf("%s: error %v, want that the plan cannot be carried out", name, err)
		}
	}
}

func TestRuntimesCountFromTheFirstStartAndResponsesFromArrival(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) {
		sc.Autoscale, sc.Flavors[0].Speed = false, 0.5
	})
	first, second := job("first", 8*gi, 0, 30*s), job("second", 8*gi, 0, 10*s)
	r := run(t, sim.Input{Scenario: sc, Policy: fixed(stock), Pods: []scenario.Pod{first, second}})
	if want := []time.Duration{20 * s, m}; !slices.Equal(r.Runtimes, want) {
		t.Errorf("runtimes are %v on a machine of half the speed, want %v", r.Runtimes, want)
	}
	if want := []time.Duration{m, 100 * s}; !slices.Equal(r.Responses, want) { // it waits for the next scheduling interval
		t.Errorf("responses are %v, want %v", r.Responses, want)
	}
}
