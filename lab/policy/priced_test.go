package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/lab/outcome"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// twoZones has one machine type in two zones. In the first hour the north has low carbon intensity
// and expensive electricity; in the second it is the other way round.
const twoZones = `apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: zones}
spec:
  horizon: 2h
  autoscale: false
  electricity:
  - zone: north
    pricePerKWh: [{from: 0s, value: 0.4}, {from: 1h, value: 0.1}]
    gramsPerKWh: [{from: 0s, value: 40}, {from: 1h, value: 400}]
  - zone: south
    pricePerKWh: [{from: 0s, value: 0.1}, {from: 1h, value: 0.4}]
    gramsPerKWh: [{from: 0s, value: 400}, {from: 1h, value: 40}]
  flavors:
  - {name: north, machineType: server, cpu: 16, memory: 64Gi, pricePerHour: 0, wattsIdle: 50, wattsFull: 250, zone: north}
  - {name: south, machineType: server, cpu: 16, memory: 64Gi, pricePerHour: 0, wattsIdle: 50, wattsFull: 250, zone: south}
  nodes: [{flavor: north}, {flavor: south}]
  taskKinds:
  - {name: task, class: batch, cpu: 1, memory: 1Gi, runtime: {min: 1m, max: 2m}}
  workload:
    patterns: [{shape: stable, rate: 2/m, mix: {task: 1}}]
`

func runTwoZones(t *testing.T, policy string) outcome.Energy {
	t.Helper()
	return *runZones(t, policy, twoZones).Energy
}

func runZones(t *testing.T, policy, text string) outcome.Policy {
	t.Helper()
	sc, err := scenario.Read("zones.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := sc.Arrivals(1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Seed: 1, Policy: byName(t, policy)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Outcome(policy, sim.Bounds{}, 0)
}

// TestTasksFollowCheapOrCleanEnergy: the tasks use the same energy in any zone. The chosen zone
// depends on the unit in which joules count, and changes with the hour.
func TestTasksFollowCheapOrCleanEnergy(t *testing.T) {
	grams, dollars := runTwoZones(t, "heats-1-grams"), runTwoZones(t, "heats-1-dollars")
	if grams.TaskJoules != dollars.TaskJoules {
		t.Errorf("tasks take %v J and %v J, want as much", grams.TaskJoules, dollars.TaskJoules)
	}
	kWh := grams.TaskJoules / 3.6e6
	idle := 2 * 0.05 // kWh an hour, half of it in each zone
	for _, tc := range []struct {
		what             string
		got, best, worst float64
	}{
		{"grams by grams", grams.CarbonGrams, kWh * 40, kWh * 400},
		{"dollars by dollars", dollars.Dollars, kWh * 0.1, kWh * 0.4},
	} {
		mean := (tc.best + tc.worst) / kWh / 2
		tasks := tc.got - 2*idle*mean // idle power is drawn regardless of where tasks run
		// A task that starts before the full hour pays the other price after it.
		if tasks < tc.best*0.9 || tasks > tc.best*1.2 {
			t.Errorf("%s: tasks have %.3g of %.3g to %.3g, want almost the least", tc.what, tasks, tc.best, tc.worst)
		}
	}
	if grams.Dollars < 1.3*dollars.Dollars || dollars.CarbonGrams < 1.3*grams.CarbonGrams {
		t.Errorf("by grams: %v, by dollars: %v: want each to be the best in its own", grams, dollars)
	}
}

// TestWithoutElectricityPricesChangeNothing: without prices, all joules count the same.
func TestWithoutElectricityPricesChangeNothing(t *testing.T) {
	sc := heatsScenario(t)
	x := runHEATS(t, sc, "heats-0.6", "heats-0.6-grams")
	for i, p := range x["heats-0.6"] {
		if q := x["heats-0.6-grams"][i]; p.EnergyJoules != q.EnergyJoules || p.MakespanSeconds != q.MakespanSeconds {
			t.Errorf("seed %d: %v J in %v s, and with prices that nobody knows %v J in %v s", i+1, p.EnergyJoules, p.MakespanSeconds, q.EnergyJoules, q.MakespanSeconds)
		}
	}
}

func TestNamesOfPricedPolicies(t *testing.T) {
	for _, name := range []string{"heats-1-dollars", "heats-0.5-grams"} {
		if p, err := ByName(name); err != nil || p.Name != name {
			t.Errorf("%s: %q, %v", name, p.Name, err)
		}
	}
	for name, says := range map[string]string{
		"heats-2-grams": "must be a number from 0 to 1", "heats-0.5-euros": "must be a number from 0 to 1", "heats--grams": "must be a number from 0 to 1",
		"supercargo-grams": "must be one of", "htas-dollars": "-dollars or -grams", "grams": "must be one of",
	} {
		if _, err := ByName(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, says)
		}
	}
}

// TestRunningTasksFollowCleanEnergy has tasks of half an hour, some of which run when the clean
// zone becomes the dirty one.
func TestRunningTasksFollowCleanEnergy(t *testing.T) {
	long := strings.Replace(twoZones, "{min: 1m, max: 2m}", "{min: 30m, max: 40m}", 1)
	long = strings.Replace(long, "rate: 2/m", "rate: 12/h", 1)
	still := runZones(t, "heats-1-grams", strings.Replace(long, "spec:\n", "spec:\n  rescheduling: {interval: 0s}\n", 1))
	long = strings.Replace(long, "spec:\n", "spec:\n  rescheduling: {interval: 1m, residence: 1m}\n", 1)
	moving, unpriced := runZones(t, "heats-1-grams", long), runZones(t, "heats-1", long)
	if moving.Moves.Migrations == 0 || unpriced.Moves.Migrations != 0 || still.Moves.Migrations != 0 {
		t.Errorf("%d migrations, %d where joules count alike, %d without rescheduling; want some, and none", moving.Moves.Migrations, unpriced.Moves.Migrations, still.Moves.Migrations)
	}
	if less := 100 * (1 - moving.Energy.CarbonGrams/still.Energy.CarbonGrams); !(less >= 2) { // most of it comes from idle power, which continues
		t.Errorf("moves save %.1f %% of the carbon, want 2", less)
	}
}

func TestThePriceOfATimeIsItsMean(t *testing.T) {
	sc, err := scenario.Read("zones.yaml", []byte(twoZones), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := courses{tariff.Grams, sc}
	for _, tc := range []struct {
		zone        string
		from, until time.Duration
		want        tariff.Price
	}{
		{"north", 0, time.Hour, tariff.Price{PerKWh: 40, Known: true}},
		{"north", 30 * time.Minute, 90 * time.Minute, tariff.Price{PerKWh: 220, Known: true}},
		{"south", 45 * time.Minute, 105 * time.Minute, tariff.Price{PerKWh: 130, Known: true}},
		{"south", 3 * time.Hour, 5 * time.Hour, tariff.Price{PerKWh: 40, Known: true}},
		{"north", 2 * time.Hour, 2 * time.Hour, tariff.Price{PerKWh: 400, Known: true}},
		{"east", 0, time.Hour, tariff.Price{}},
	} {
		if got := c.mean(tc.zone, sim.Epoch.Add(tc.from), sim.Epoch.Add(tc.until)); got.Known != tc.want.Known || !(math.Abs(got.PerKWh-tc.want.PerKWh) <= 1e-9) {
			t.Errorf("%s from %v to %v: %+v, want %+v", tc.zone, tc.from, tc.until, got, tc.want)
		}
	}
}

// TestATaskWaitsUntilEnergyIsCleanerElsewhere: a task of three hours starts in the north and moves
// when the south becomes cleaner at the full hour, neither earlier nor back.
func TestATaskWaitsUntilEnergyIsCleanerElsewhere(t *testing.T) {
	head, _, _ := strings.Cut(twoZones, "  taskKinds:")
	long := head + `  workload:
    pods: [{name: long, class: batch, cpu: 8, memory: 1Gi, arrival: 1s, runtime: 3h}]
`
	moved, stayed := runZones(t, "heats-1-grams", long), runZones(t, "heats-1", long)
	if moved.Moves.Migrations != 1 || moved.Pods.Completed != 1 || stayed.Moves.Migrations != 0 {
		t.Errorf("%d migrations, %d where joules count alike; want 1 and 0", moved.Moves.Migrations, stayed.Moves.Migrations)
	}
	if !(moved.Energy.CarbonGrams < 0.75*stayed.Energy.CarbonGrams) {
		t.Errorf("it emits %v g when it moves and %v g when it stays, want much less", moved.Energy.CarbonGrams, stayed.Energy.CarbonGrams)
	}
}
