package sim_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/outcome"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// randomScenario returns a small scenario in which any field may be set.
func randomScenario(seed uint64) (*scenario.Scenario, []scenario.Pod) {
	r := rand.New(rand.NewPCG(seed, 1))
	oneOf := func(of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }
	sc := &scenario.Scenario{
		Name: "random", Horizon: oneOf(s, 7*m, 20*m, 30*m, time.Hour, 2*time.Hour), SchedulingInterval: oneOf(5*s, 20*s, 20*s, 33*s, 2*m),
		ScalingInterval: oneOf(20*s, m, 5*m, 5*m, 7*m), AcquisitionLag: scenario.Lag{Mean: oneOf(0, 10*s, 150*s, 150*s, 8*m), SD: oneOf(0, 0, 0, 4*s, m)},
		BillingPeriod: oneOf(s, m, m, time.Hour, 77*s), BilledFrom: scenario.FromOrder, ReleaseLag: oneOf(0, 5*s, 5*s, 90*s),
		Migration:         scenario.Migration{BitsPerSecond: 1_200_000_000, BytesPerMemory: []float64{0, 1, 1, 3}[r.IntN(4)], Fixed: oneOf(0, 2*s, 2*s, 40*s)},
		HomogeneousFlavor: "f0", Autoscale: r.IntN(6) > 0, MaxNodes: 1 + r.Int64N(40),
	}
	if r.IntN(4) == 0 {
		sc.BilledFrom = scenario.FromReady
	}
	for i := range 1 + r.IntN(4) {
		size := 1 + r.Int64N(4)
		f := scenario.Flavor{Speed: []float64{1, 1, 1, 2, 0.5, 0.3}[r.IntN(6)], Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Name: fmt.Sprint("f", i), Size: packing.Size{MilliCPU: 1000 * size, MemoryBytes: (1 + r.Int64N(4)) * size * gi}, MicroDollarsPerHour: r.Int64N(200_000) * size, Arch: []string{"amd64", "amd64", "amd64", "arm64"}[min(i, r.IntN(4))], MaxPods: new([]int64{110, 110, 110, 4}[r.IntN(4)])}}}
		f.MilliwattsIdle = r.Int64N(100_000)
		f.MilliwattsFull = f.MilliwattsIdle + r.Int64N(100_000)
		sc.Flavors = append(sc.Flavors, f)
	}
	for left := min(sc.MaxNodes, 4); left > 0 && (r.IntN(2) == 0 || !sc.Autoscale); {
		n := 1 + r.Int64N(left)
		sc.Nodes = append(sc.Nodes, scenario.Nodes{
			Flavor: sc.Flavors[r.IntN(len(sc.Flavors))].Name, Count: n, Class: []class.Class{class.Any, class.Batch, class.Service}[r.IntN(3)],
		})
		left -= n
	}
	randomCurves(rand.New(rand.NewPCG(seed, 2)), sc.Flavors)
	pods := randomPods(r, sc.Horizon)
	randomMoves(rand.New(rand.NewPCG(seed, 3)), sc, pods)
	return sc, pods
}

// randomMoves sets how and how often pods move, and what their owners declare.
func randomMoves(r *rand.Rand, sc *scenario.Scenario, pods []scenario.Pod) {
	sc.Rescheduling = scenario.Rescheduling{
		Interval: []time.Duration{0, 5 * s, 20 * s, m}[r.IntN(4)], Residence: time.Duration(r.Int64N(int64(m))), Gain: 1 + r.Int64N(20), Pods: 1 + r.Int64N(4),
	}
	weight := func() *float64 {
		h := float64(r.IntN(5)) / 4
		return []*float64{nil, &h}[r.IntN(2)]
	}
	sc.Namespaces = []scenario.Namespace{{Name: "default", EnergyWeight: weight()}, {Name: "other", EnergyWeight: weight()}}
	for i := range pods {
		p := &pods[i]
		p.EnergyWeight, p.Namespace = weight(), []string{"", "other"}[r.IntN(2)]
		p.Migration = []scenario.Migratable{scenario.MoveAsLiked, scenario.MoveAsLiked, scenario.MoveWithState, scenario.MoveByRestart, scenario.MoveNever}[r.IntN(5)]
	}
}

// audited are the policies whose books are audited.
func audited() []string { return append(policy.Names(), "heats-0", "heats-0.5", "heats-1") }

// randomCurves gives some flavors a power curve and merges some into one machine type.
func randomCurves(r *rand.Rand, flavors []scenario.Flavor) {
	for i := range flavors {
		f := &flavors[i]
		f.MachineType = fmt.Sprint("t", r.IntN(3))
		utilization, milliwatts := 0.0, f.MilliwattsIdle
		for range r.IntN(4) {
			utilization += 0.01 + 0.3*r.Float64()
			milliwatts += r.Int64N(f.MilliwattsFull - milliwatts + 1)
			f.PowerCurve = append(f.PowerCurve, scenario.PowerPoint{Utilization: utilization, Milliwatts: milliwatts})
		}
	}
}

func randomPods(r *rand.Rand, horizon time.Duration) []scenario.Pod {
	pods := make([]scenario.Pod, r.IntN(60))
	fit := r.IntN(2) == 0 // on any machine
	for i := range pods {
		p := scenario.Pod{
			Pod: cluster.Pod{Item: packing.Item{Name: fmt.Sprint("p", i), Arrival: time.Duration(r.Int64N(int64(horizon) + 1)), Size: packing.Size{MilliCPU: 100 * r.Int64N(12), MemoryBytes: r.Int64N(3*gi + gi/2)}, Runtime: time.Duration(r.Int64N(int64(12 * m)))}, Class: class.Batch},
		}
		if fit {
			p.Size.MilliCPU, p.Size.MemoryBytes = min(p.Size.MilliCPU, 1000), p.Size.MemoryBytes/4
		}
		switch r.IntN(16) {
		case 0, 6: // at round times, as people write them
			p.Arrival, p.Runtime = p.Arrival.Truncate(m), p.Runtime.Truncate(20*s)
		case 1:
			if !fit {
				p.Size.MemoryBytes *= 4
			}
		case 2:
			if !fit {
				p.Arch = "arm64"
			}
		case 3, 9, 10:
			p.Category = fmt.Sprint("c", r.IntN(3))
		case 4, 5, 7, 8:
			p.Class, p.Lifetime, p.Runtime = class.Service, p.Runtime*time.Duration(r.IntN(3)), 0
		}
		pods[i] = p
	}
	slices.SortStableFunc(pods, func(a, b scenario.Pod) int { return int(a.Arrival - b.Arrival) })
	return pods
}

var scenarios = flag.Uint64("scenarios", 40, "of how many random scenarios the books are checked, 40 at least")

// TestBooksBalance audits runs of random scenarios under every policy, and repeats each run without
// shortcuts.
func TestBooksBalance(t *testing.T) {
	t.Parallel()
	scenarios := *scenarios
	if testing.Short() {
		scenarios = 40
	}
	var all tally
	seeds := make(chan uint64)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range seeds {
				for _, name := range audited() {
					if fault := audit(t.Context(), seed, name, &all); fault != "" {
						t.Errorf("seed %d, policy %s: %s", seed, name, fault)
					}
				}
			}
		})
	}
	for seed := range scenarios {
		seeds <- seed
	}
	close(seeds)
	workers.Wait()
	if all.runs < 6*40 || all.done < all.runs/4 || all.migrations < 10 || all.evictions < 10 || all.limited < 10 || all.pending < 10 || all.higher < all.done/4 {
		t.Errorf("the scenarios are too tame or too hard: %+v", &all)
	}
}

// tally counts events in runs, to check that the scenarios are demanding.
type tally struct {
	sync.Mutex
	// done counts runs that completed all batch pods, and limited those that reached the maximum
	// number of machines.
	runs, done, limited            int
	pending, migrations, evictions int
	// higher counts runs for which the served bound is higher than the lower bound.
	higher int
}

func (t *tally) compare(lower, served int64) {
	t.Lock()
	defer t.Unlock()
	if served > lower {
		t.higher++
	}
}

func (t *tally) add(r *sim.Result, l *ledger) {
	t.Lock()
	defer t.Unlock()
	t.runs++
	if !l.batchWaits() {
		t.done++
	}
	if l.peak == int(l.sc.MaxNodes) {
		t.limited++
	}
	t.pending, t.migrations, t.evictions = t.pending+r.Pending, t.migrations+r.Migrations, t.evictions+r.Evictions
}

// audit runs a random scenario under a policy and returns everything that is wrong with it.
func audit(ctx context.Context, seed uint64, name string, all *tally) string {
	p, err := policy.ByName(name)
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	sc, pods := randomScenario(seed)
	l := newLedger(sc, pods, p)
	input := sim.Input{Scenario: sc, Pods: pods, Seed: seed, Policy: p}
	r, err := sim.Run(ctx, input.Watched(l.process))
	if err != nil {
		return err.Error()
	}
	all.add(r, l)
	if faults := l.settle(r); len(faults) > 0 {
		return strings.Join(faults, "\n")
	}
	if !l.batchWaits() {
		lower, served := sim.LowerBound(sc, pods), sim.ServedBound(sc, pods, r.MeanServiceWait())
		if r.CostMicroDollars < served || served < lower {
			return fmt.Sprintf("the bill is %d, the bound %d, and %d with services that wait for %v", r.CostMicroDollars, lower, served, r.MeanServiceWait())
		}
		all.compare(lower, served)
	}
	if least := soonest(sc, pods); r.Makespan < least && !l.batchWaits() {
		return fmt.Sprintf("makespan %v, want at least %v", r.Makespan, least)
	}
	full, err := sim.Run(ctx, input.Exhaustive())
	if err != nil {
		return err.Error()
	}
	delete(r.Events, "schedulingAttempts")
	delete(full.Events, "schedulingAttempts")
	// Of several pods with too large requests, only the first gets the reasons of the nodes.
	if diff := cmp.Diff(full, r, cmpopts.IgnoreFields(sim.Result{}, "PendingReasons")); diff != "" {
		return "shortcuts change the result (-without +with):\n" + diff
	}
	return ""
}

// soonest returns a time before which the last batch pod cannot end.
func soonest(sc *scenario.Scenario, pods []scenario.Pod) time.Duration {
	var least time.Duration
	speed := 0.0
	for _, f := range sc.Flavors {
		speed = max(speed, f.Speed)
	}
	for _, p := range pods {
		if p.Class == class.Batch {
			least = max(least, p.Arrival+time.Duration(float64(p.Runtime)/speed))
		}
	}
	return least
}

// TestOutcomesAreTheSameBytes runs on one processor and on four. It is not parallel, because it
// sets GOMAXPROCS.
func TestOutcomesAreTheSameBytes(t *testing.T) {
	encode := func(seed uint64, processors int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		sc, pods := randomScenario(seed)
		report := outcome.Report{Scenario: sc.Name, Seed: seed}
		var out bytes.Buffer
		for _, name := range audited() {
			p, err := policy.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, sim.Input{Scenario: sc, Pods: pods, Seed: seed, Policy: p})
			report.Policies = append(report.Policies, r.Outcome(name, sim.Bounds{Lower: sim.LowerBound(sc, pods), Served: sim.ServedBound(sc, pods, m)}, 0))
			fmt.Fprintln(&out, r.Placements)
		}
		if err := report.WriteJSON(&out); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		return out.String()
	}
	for seed := range uint64(10) {
		first := encode(seed, 1)
		if diff := cmp.Diff(first, encode(seed, 4)); diff != "" {
			t.Errorf("seed %d: on four processors (-one +four):\n%s", seed, diff)
		}
	}
}
