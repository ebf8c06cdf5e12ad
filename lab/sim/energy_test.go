package sim_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

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

func TestTheEnergyOfTasksIsApartFromIdlePower(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) {
		sc.Autoscale, sc.Horizon = false, 200*s
		f := &sc.Flavors[0]
		f.MilliwattsIdle, f.MilliwattsFull = 50_000, 90_000
	})
	pod := job("job", gi, 40*s, 50*s)
	pod.Size.MilliCPU = 1000 // half of the machine
	r := run(t, sim.Input{Scenario: sc, Policy: fixed(stock), Pods: []scenario.Pod{pod}})
	idle, tasks := 50.0*200, 20.0*50
	if e := r.Energy[0]; !near(r.EnergyJoules, idle+tasks) || !near(e.Joules, idle+tasks) || !near(e.IdleJoules, idle) || !near(e.TaskJoules, tasks) {
		t.Errorf("%v J, %+v; want %v idle and %v of the task", r.EnergyJoules, *e, idle, tasks)
	}
	if r.EndWatts != 50 {
		t.Errorf("%v W at the end, want 50", r.EndWatts)
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
