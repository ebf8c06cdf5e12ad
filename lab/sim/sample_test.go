package sim_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/lab/outcome"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// TestSamplesShowTheRunAtEqualDistances samples ten minutes every two seconds.
func TestSamplesShowTheRunAtEqualDistances(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 10 * m })
	half := job("half", 4*gi, 0, 100*s)
	half.Size.MilliCPU = 1000
	c := &script{plans: plans{20 * s: buy("wide"), 300 * s: releaseOf("wide-0")}}
	h := simulate(t, sc, c, half, job("late", 16*gi, 15*s, 10*s), job("impossible", 99*gi, 11*s, s), job("after", 4*gi, 310*s, 20*s))
	if h.Step != 2*s || len(h.Samples) != 301 {
		t.Fatalf("%d samples every %v, want 301 every 2s", len(h.Samples), h.Step)
	}
	for at, want := range map[time.Duration]sim.Sample{
		0:       {CostMicroDollars: dollar, CPU: 0.5, Memory: 0.5, Machines: 1},
		10 * s:  {CostMicroDollars: dollar, CPU: 0.5, Memory: 0.5, Machines: 1},
		12 * s:  {CostMicroDollars: dollar, CPU: 0.5, Memory: 0.5, Machines: 1, Pending: 1},
		16 * s:  {CostMicroDollars: dollar, CPU: 0.5, Memory: 0.5, Machines: 1, Pending: 2},
		20 * s:  {CostMicroDollars: 3 * dollar, CPU: 1000.0 / 6000, Memory: 4.0 / 24, Machines: 2, Pending: 2}, // wide costs two
		60 * s:  {CostMicroDollars: 3 * dollar, CPU: 1000.0 / 6000, Memory: 4.0 / 24, Machines: 2, Pending: 2},
		62 * s:  {CostMicroDollars: 4 * dollar, CPU: 1000.0 / 6000, Memory: 4.0 / 24, Machines: 2, Pending: 2},
		100 * s: {CostMicroDollars: 6 * dollar, Machines: 2, Pending: 2},
		170 * s: {CostMicroDollars: 9 * dollar, CPU: 100.0 / 6000, Memory: 16.0 / 24, Machines: 2, Pending: 1},
		304 * s: {CostMicroDollars: 16 * dollar, Machines: 2, Pending: 1},
		306 * s: {CostMicroDollars: 16 * dollar, Machines: 1, Pending: 1},
		312 * s: {CostMicroDollars: 16 * dollar, CPU: 0.05, Memory: 0.5, Machines: 1, Pending: 1},
		600 * s: {CostMicroDollars: 20 * dollar, Machines: 0, Pending: 1},
	} {
		got := h.Samples[at/h.Step]
		if at == 600*s {
			want.Machines = got.Machines // all machines are gone by then
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", at, diff)
		}
	}
}

func TestTheLastSampleIsTheEnd(t *testing.T) {
	t.Parallel()
	h := simulate(t, scene(pair), &script{plans: plans{20 * s: migrate("medium-0", "a", "wide-0"), 60 * s: buy("medium"), 80 * s: evict("wide-0")}},
		job("a", ten, 0, 1000*s+1))
	last := h.Samples[len(h.Samples)-1]
	if last.CostMicroDollars != h.CostMicroDollars || last.Moves != 2 {
		t.Errorf("the last sample is %+v, want the bill of %d and two moves", last, h.CostMicroDollars)
	}
	if end := time.Duration(len(h.Samples)-1) * h.Step; end < h.Over || end >= h.Over+h.Step {
		t.Errorf("the last of %d samples every %v is at %v, want just after the end at %v", len(h.Samples), h.Step, end, h.Over)
	}
	for i := 1; i < len(h.Samples); i++ {
		if h.Samples[i].CostMicroDollars < h.Samples[i-1].CostMicroDollars || h.Samples[i].Moves < h.Samples[i-1].Moves {
			t.Errorf("from sample %d to the next, %+v, cost or moves go back", i-1, h.Samples[i-1:i+1])
		}
	}
}

// TestLongRunsAreSampledMoreSeldom: a run of 2,000 s would have 2,000 samples.
func TestLongRunsAreSampledMoreSeldom(t *testing.T) {
	t.Parallel()
	h := simulate(t, scene(), &script{}, job("a", gi, 0, 1000*s), job("b", 8*gi, s, 1000*s))
	if h.Step != 4*s || len(h.Samples) != 506 { // to 1020 s and then 1000 s more
		t.Fatalf("%d samples every %v, want 506 every 4s", len(h.Samples), h.Step)
	}
	for i, sample := range h.Samples[:len(h.Samples)-1] {
		at := time.Duration(i) * h.Step
		if want := int64(max(1, (at+m-1)/m)) * dollar; sample.CostMicroDollars != want {
			t.Errorf("at %v the bill is %d, want %d", at, sample.CostMicroDollars, want)
		}
		if waits := s <= at && at < 1020*s; (sample.Pending == 1) != waits {
			t.Errorf("at %v %d pods wait", at, sample.Pending)
		}
	}
}

func TestWaitsAreSummedUpByNearestRank(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		waits []time.Duration
		want  outcome.Waits
	}{
		{nil, outcome.Waits{}},
		{[]time.Duration{7 * s}, outcome.Waits{Mean: 7, P50: 7, P95: 7, Max: 7}},
		{[]time.Duration{0, 4 * s}, outcome.Waits{Mean: 2, P50: 0, P95: 4, Max: 4}},
		{[]time.Duration{0, 0, 4 * s, 8 * s}, outcome.Waits{Mean: 3, P50: 0, P95: 8, Max: 8}},
	} {
		if got := (&sim.Result{Waits: tc.waits}).Outcome("p", sim.Bounds{}, 0).Scheduling; got != tc.want {
			t.Errorf("waits %v come to %+v, want %+v", tc.waits, got, tc.want)
		}
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i+1) * s
	}
	want := outcome.Waits{Mean: 50.5, P50: 50, P95: 95, Max: 100}
	if got := (&sim.Result{Waits: hundred}).Outcome("p", sim.Bounds{}, 0).Scheduling; got != want {
		t.Errorf("1 to 100 s come to %+v, want %+v", got, want)
	}
}

func TestTheOutcomeSaysAllInItsUnits(t *testing.T) {
	t.Parallel()
	r := &sim.Result{
		Submitted: 1, Scheduled: 2, Completed: 3, Pending: 4, Failed: 5, PendingReasons: map[string]int64{"full": 4},
		Services: 2, ServiceWait: 9 * s, Makespan: 90 * s, Over: 100 * s, CostMicroDollars: 1_500_000, EnergyJoules: 7,
		UsedMilliCPUSeconds: 1, PaidMilliCPUSeconds: 4, UsedMemoryByteSeconds: 1, PaidMemoryByteSeconds: 2,
		NodesStart: 1, NodesPeak: 2, NodesAdded: 3, NodesRemoved: 4, MachineSeconds: 1800,
		Migrations: 6, Evictions: 7, LostWork: 8 * s, Events: map[string]int64{"drains": 9}, Step: 2 * s,
		Samples: []sim.Sample{{CostMicroDollars: 1, CPU: 0.25, Memory: 0.5, Machines: 3, Pending: 4, Moves: 5}, {CostMicroDollars: 1_500_000}},
	}
	want := outcome.Policy{
		Name: "p", CostDollars: 1.5, LowerBoundDollars: 0.25, ServedBoundDollars: 0.5, ServedBoundWaitSeconds: 3, ServiceWaitSeconds: 4.5, EnergyJoules: 7, MakespanSeconds: 90, EndSeconds: 100,
		Pods:        outcome.Pods{Submitted: 1, Scheduled: 2, Completed: 3, Pending: 4, Failed: 5},
		Utilization: outcome.Utilization{CPU: 0.25, Memory: 0.5},
		Nodes:       outcome.Nodes{Start: 1, Peak: 2, Added: 3, Removed: 4, Hours: 0.5},
		Moves:       outcome.Moves{Migrations: 6, Evictions: 7, LostWorkSeconds: 8},
		Events:      map[string]int64{"drains": 9}, PendingReasons: map[string]int64{"full": 4}, WallSeconds: 1.25,
		Series: outcome.Series{
			StepSeconds: 2, CostDollars: []float64{0.000001, 1.5}, CPU: []float64{0.25, 0}, Memory: []float64{0.5, 0},
			Machines: []int{3, 0}, Pending: []int{4, 0}, Moves: []int{5, 0},
		},
	}
	if diff := cmp.Diff(want, r.Outcome("p", sim.Bounds{Lower: 250_000, Served: 500_000, ServiceWait: 3 * s}, 1250*time.Millisecond)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if u := (&sim.Result{}).Outcome("p", sim.Bounds{}, 0).Utilization; u != (outcome.Utilization{}) {
		t.Errorf("utilization of nothing is %+v", u)
	}
}
