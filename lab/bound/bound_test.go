package bound

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/test/draw"
)

func size(cpu, memory int64) packing.Size { return packing.Size{MilliCPU: cpu, MemoryBytes: memory} }

// slot is the billing period of the tiny runs. At 60 micro-dollars per hour a machine costs 1
// micro-dollar per slot.
const slot = time.Minute

func perSlot(micros int64) int64 { return 60 * micros }

func flavor(cpu, memory, micros int64) Flavor {
	return Flavor{Flavor: cluster.Flavor{Size: size(cpu, memory), MicroDollarsPerHour: perSlot(micros)}}
}

func batch(cpu, memory int64, arrival, runtime time.Duration) cluster.Pod {
	return cluster.Pod{Item: packing.Item{Size: size(cpu, memory), Arrival: arrival * slot, Runtime: runtime * slot}}
}

func service(cpu, memory int64, arrival, lifetime time.Duration) cluster.Pod {
	p := batch(cpu, memory, arrival, lifetime)
	p.Class = class.Service
	return p
}

func TestCostOfRunsThatCanBeWorkedOutByHand(t *testing.T) {
	with := func(f Flavor, change func(*Flavor)) Flavor { change(&f); return f }
	arm := func(p cluster.Pod) cluster.Pod { p.Arch = "arm64"; return p }
	small, big := flavor(2, 4, 3), flavor(4, 8, 5)
	tests := []struct {
		name string
		run  Run
		want Bound
	}{
		{"nothing to do costs nothing", Run{Flavors: []Flavor{small}}, Bound{}},
		{"one machine for one pod", Run{Pods: []cluster.Pod{batch(2, 4, 0, 10)}, Flavors: []Flavor{small}},
			Bound{MicroDollars: 30, Work: 30, Longest: 30}},
		{"two halves share the better machine", Run{Pods: []cluster.Pod{batch(2, 4, 0, 10), batch(2, 4, 7, 10)}, Flavors: []Flavor{small, big}},
			Bound{MicroDollars: 50, Work: 50, Longest: 30}},
		// The prices a, b of a unit solve 4a + 2b = 3 and 2a + 4b = 3: both 1/2.
		{"two flavors complete each other", Run{Pods: []cluster.Pod{batch(2, 2, 0, 4), batch(2, 2, 0, 4), batch(2, 2, 0, 4)}, Flavors: []Flavor{flavor(4, 2, 3), flavor(2, 4, 3), flavor(3, 3, 9)}},
			Bound{MicroDollars: 24, Work: 24, Longest: 12}},
		{"a started period is paid", Run{Pods: []cluster.Pod{{Item: packing.Item{Size: size(1, 1), Runtime: time.Second}}}, Flavors: []Flavor{small}, BillingPeriod: slot},
			Bound{MicroDollars: 3, Longest: 3}},
		{"a fast machine pays if it costs less for the work", Run{Pods: []cluster.Pod{batch(2, 4, 0, 10)},
			Flavors: []Flavor{small, with(flavor(2, 4, 4), func(f *Flavor) { f.Speed = 2 })}},
			Bound{MicroDollars: 19, Work: 19, Longest: 19}}, // 20 minus the nanoseconds that rounding may save
		{"pods that fit nowhere add nothing", Run{Pods: []cluster.Pod{batch(9, 1, 0, 10)}, Flavors: []Flavor{small}}, Bound{Uncounted: 1}},
		{"architectures add up", Run{Pods: []cluster.Pod{arm(batch(2, 4, 0, 10)), batch(2, 4, 0, 10), {Item: packing.Item{Size: size(2, 4), Runtime: 10 * slot}, Arch: "amd64"}},
			Flavors: []Flavor{with(small, func(f *Flavor) { f.Arch = "amd64" }), with(big, func(f *Flavor) { f.Arch = "arm64" })}},
			Bound{MicroDollars: 75, Work: 75, Longest: 50}},
		{"pods that only a dear machine holds", Run{Pods: []cluster.Pod{batch(4, 1, 0, 10), batch(4, 1, 0, 10)}, Flavors: []Flavor{flavor(2, 4, 1), flavor(4, 4, 9)}},
			Bound{MicroDollars: 180, Work: 180, Longest: 90}},
		{"places for pods", Run{Pods: []cluster.Pod{batch(0, 0, 0, 10), batch(0, 0, 0, 10), batch(0, 0, 0, 10)},
			Flavors: []Flavor{with(small, func(f *Flavor) { f.MaxPods = new(int64(2)) })}}, Bound{MicroDollars: 45, Work: 45, Longest: 30}},
		{"machines at the start are paid for one period", Run{Machines: []Machines{{big, 2}}, BillingPeriod: slot},
			Bound{MicroDollars: 10, Start: 10}},
		{"and for the release", Run{Machines: []Machines{{big, 2}}, BillingPeriod: slot, ReleaseLag: slot + 1},
			Bound{MicroDollars: 20, Start: 20}},
		{"and work meanwhile", Run{Pods: []cluster.Pod{batch(4, 8, 0, 10)}, Machines: []Machines{{big, 1}}, BillingPeriod: slot},
			Bound{MicroDollars: 50, Start: 5, Work: 45, Longest: 50}},
		{"but not for pods that come later", Run{Pods: []cluster.Pod{batch(4, 8, 1, 10)}, Machines: []Machines{{big, 1}}, BillingPeriod: slot},
			Bound{MicroDollars: 55, Start: 5, Work: 50, Longest: 50}},
		{"nor more than they can", Run{Pods: []cluster.Pod{batch(4, 8, 0, 10), batch(4, 8, 0, 10)}, Machines: []Machines{{big, 1}}, BillingPeriod: slot},
			Bound{MicroDollars: 100, Start: 5, Work: 95, Longest: 50}},
		{"a fixed cluster is paid to the end", Run{Pods: []cluster.Pod{batch(1, 1, 3, 4)}, Machines: []Machines{{big, 1}}, Fixed: true, BillingPeriod: slot},
			Bound{MicroDollars: 35, Start: 35, Longest: 20}},
		{"which may be known to be later", Run{Pods: []cluster.Pod{batch(1, 1, 3, 4)}, Machines: []Machines{{big, 1}}, Fixed: true, End: 9 * slot},
			Bound{MicroDollars: 45, Start: 45, Longest: 20}},
		{"or follow from the work", Run{Pods: []cluster.Pod{batch(4, 8, 0, 4), batch(4, 8, 0, 4)}, Machines: []Machines{{big, 1}}, Fixed: true},
			Bound{MicroDollars: 40, Start: 20, Work: 20, Longest: 20}},
		{"services may never be served", Run{Pods: []cluster.Pod{service(2, 4, 0, 0)}, Flavors: []Flavor{small}, End: 10 * slot}, Bound{}},
		{"a smaller machine of another architecture may hold what a greater does not", Run{Pods: []cluster.Pod{arm(batch(2, 4, 0, 10))},
			Flavors: []Flavor{small, with(flavor(2, 4, 1), func(f *Flavor) { f.Arch = "arm64" }), with(flavor(4, 8, 9), func(f *Flavor) { f.Arch = "arm64" })}},
			Bound{MicroDollars: 10, Work: 10, Longest: 10}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Cost(tc.run)); diff != "" {
				t.Errorf("bound (-want +got):\n%s", diff)
			}
		})
	}
}

// tiny finds the cheapest of all runs by trying, slot by slot, every choice of pods to run and
// every way to put them on machines. Pods may be stopped, resumed and moved for free, so a machine
// may as well be bought again for each slot.
type tiny struct {
	Run
	slots int
	known map[string]int64
}

const never = math.MaxInt64 / 4

// cheapest returns the cost from a slot on, given the remaining work of each pod. It excludes the
// unavoidable cost of the initial machines.
func (w *tiny) cheapest(now int, left []int) int64 {
	over := now >= int(w.End/slot)
	for i, p := range w.Pods {
		over = over && (p.Class == class.Service || left[i] == 0)
	}
	if over {
		return 0
	}
	if now == w.slots {
		return never
	}
	key := fmt.Sprint(now, left)
	cost, ok := w.known[key]
	if !ok {
		var rooms []*room
		for _, m := range w.Machines {
			for range m.Count {
				if now < w.paidSlots() || w.Fixed {
					rooms = append(rooms, newRoom(m.Flavor))
				}
			}
		}
		cost = w.try(0, now, left, rooms)
		if w.Fixed {
			for _, m := range w.Machines {
				cost += m.Count * m.Flavor.MicroDollarsPerHour / 60
			}
		}
		w.known[key] = cost
	}
	return cost
}

func (w *tiny) paidSlots() int { return max(1, int(w.ReleaseLag/slot)) }

type room struct {
	free  packing.Size
	pods  int64
	speed int
	arch  string
}

func newRoom(f Flavor) *room {
	r := &room{free: f.Size, pods: math.MaxInt64, speed: int(f.Speed), arch: f.Arch}
	if f.MaxPods != nil {
		r.pods = *f.MaxPods
	}
	return r
}

// try decides about pod i and the following pods in this slot.
func (w *tiny) try(i, now int, left []int, rooms []*room) int64 {
	if i == len(w.Pods) {
		return w.cheapest(now+1, append([]int(nil), left...))
	}
	p := w.Pods[i]
	best := w.try(i+1, now, left, rooms)
	if p.Class == class.Service || left[i] == 0 || now < int(p.Arrival/slot) {
		return best
	}
	on := func(r *room) int64 {
		if !p.Size.Fits(r.free) || r.pods == 0 || p.Arch != "" && p.Arch != r.arch {
			return never
		}
		before, had := *r, left[i]
		r.free, r.pods, left[i] = r.free.Minus(p.Size), r.pods-1, max(0, left[i]-r.speed)
		cost := w.try(i+1, now, left, rooms)
		*r, left[i] = before, had
		return cost
	}
	for _, r := range rooms {
		best = min(best, on(r))
	}
	if !w.Fixed {
		for _, f := range w.Flavors {
			r := newRoom(f)
			rooms = append(rooms, r)
			best = min(best, on(r)+f.MicroDollarsPerHour/60)
			rooms = rooms[:len(rooms)-1]
		}
	}
	return best
}

// truth returns the least cost of a run, or never if its pods cannot complete.
func truth(r Run, slots int) int64 {
	w := tiny{Run: r, slots: slots, known: map[string]int64{}}
	left := make([]int, len(r.Pods))
	for i, p := range r.Pods {
		left[i] = int(p.Runtime / slot)
	}
	cost, perSlot := w.cheapest(0, left), int64(0)
	for _, m := range r.Machines {
		perSlot += m.Count * m.Flavor.MicroDollarsPerHour / 60
	}
	if r.Fixed {
		return max(cost, perSlot) // a period has started even if there is nothing to do
	}
	return cost + int64(w.paidSlots())*perSlot
}

func drawFlavor(t *rapid.T) Flavor {
	f := flavor(rapid.Int64Range(1, 4).Draw(t, "cpu"), rapid.Int64Range(1, 4).Draw(t, "memory"), rapid.Int64Range(0, 9).Draw(t, "micros"))
	f.MaxPods = rapid.Ptr(rapid.Int64Range(1, 2), true).Draw(t, "max pods")
	f.Arch = rapid.SampledFrom([]string{"x", "x", "y"}).Draw(t, "arch")
	f.Speed = rapid.SampledFrom([]float64{1, 1, 1, 2}).Draw(t, "speed")
	return f
}

func drawPod(t *rapid.T) cluster.Pod {
	return cluster.Pod{
		Item:  packing.Item{Size: size(rapid.Int64Range(0, 4).Draw(t, "cpu"), rapid.Int64Range(0, 4).Draw(t, "memory")), Arrival: time.Duration(rapid.IntRange(0, 2).Draw(t, "arrival")) * slot, Runtime: time.Duration(rapid.IntRange(1, 3).Draw(t, "runtime")) * slot},
		Arch:  rapid.SampledFrom([]string{"", "", "x", "y"}).Draw(t, "arch"),
		Class: rapid.SampledFrom([]class.Class{class.Service, class.Batch, class.Batch, class.Batch}).Draw(t, "class"),
	}
}

func drawRun(t *rapid.T) Run {
	r := Run{
		Pods:          rapid.SliceOfN(rapid.Custom(drawPod), 0, 3).Draw(t, "pods"),
		Flavors:       rapid.SliceOfN(rapid.Custom(drawFlavor), 1, 3).Draw(t, "flavors"),
		BillingPeriod: slot,
		ReleaseLag:    time.Duration(rapid.IntRange(0, 2).Draw(t, "release lag")) * slot,
		End:           time.Duration(rapid.IntRange(0, 4).Draw(t, "end")) * slot,
		Fixed:         rapid.IntRange(0, 3).Draw(t, "fixed") == 0,
	}
	for _, f := range rapid.SliceOfN(rapid.Custom(drawFlavor), 0, 2).Draw(t, "machines") {
		r.Machines = append(r.Machines, Machines{Flavor: f, Count: 1})
	}
	return r
}

func TestNoScheduleIsCheaperThanTheBound(t *testing.T) {
	reached, possible := 0, 0
	property := func(t *rapid.T) {
		r := drawRun(t)
		bound, least := Cost(r), truth(r, 7)
		if least >= never {
			return
		}
		possible++
		if bound.MicroDollars > least {
			t.Fatalf("bound %+v, but the run can be had for %d", bound, least)
		}
		if bound.MicroDollars >= least-1 {
			reached++
		}
	}
	draw.Fixed(t, 100, property)
	// A bound of 0 would also be valid.
	if reached*3 < possible {
		t.Errorf("the bound is reached in %d of %d runs only", reached, possible)
	}
	rapid.Check(t, property)
}

func TestAnotherPodNeverLowersTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, p := drawRun(t), drawPod(t)
		before := Cost(r)
		r.Pods = append(r.Pods, p)
		if after := Cost(r); after.MicroDollars < before.MicroDollars {
			t.Fatalf("bound %+v, with %+v it is %+v", before, p, after)
		}
	})
}

func TestTheBoundScalesWithPrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, k := drawRun(t), rapid.Int64Range(1, 1000).Draw(t, "times")
		before := Cost(r).MicroDollars
		for i := range r.Flavors {
			r.Flavors[i].MicroDollarsPerHour *= k
		}
		for i := range r.Machines {
			r.Machines[i].Flavor.MicroDollarsPerHour *= k
		}
		if after := Cost(r).MicroDollars; after < k*before || after >= k*(before+1) {
			t.Fatalf("%d, and %d at %d times the prices", before, after, k)
		}
	})
}

func TestTheOrderOfArgumentsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRun(t)
		want := Cost(r)
		r.Pods = rapid.Permutation(r.Pods).Draw(t, "pods shuffled")
		r.Flavors = rapid.Permutation(r.Flavors).Draw(t, "flavors shuffled")
		r.Machines = rapid.Permutation(r.Machines).Draw(t, "machines shuffled")
		if diff := cmp.Diff(want, Cost(r)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestGreatNumbersDoNotOverflow(t *testing.T) {
	r := Run{Flavors: []Flavor{{Flavor: cluster.Flavor{Size: size(1, 1), MicroDollarsPerHour: 1 << 60}}}}
	for range 1000 {
		r.Pods = append(r.Pods, batch(1, 1, 0, 100_000_000))
	}
	if got := Cost(r); got.MicroDollars != math.MaxInt64 {
		t.Errorf("bound %+v, want the greatest number", got)
	}
}

func BenchmarkCost(b *testing.B) {
	r := Run{Machines: []Machines{{Flavor{Flavor: cluster.Flavor{Size: size(2000, 8<<30), MicroDollarsPerHour: 137_100}}, 2}}, BillingPeriod: slot, ReleaseLag: 5 * time.Second}
	for i := range int64(8) {
		r.Flavors = append(r.Flavors, Flavor{Flavor: cluster.Flavor{Size: size(1000<<i, 2<<30<<i), MaxPods: new(int64(110)), MicroDollarsPerHour: 34_000<<i - i*900}, Speed: 1 + float64(i)/10})
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		r.Pods = append(r.Pods, cluster.Pod{Item: packing.Item{Size: size(random.Int64N(2000), random.Int64N(8<<30)), Arrival: time.Duration(random.Int64N(int64(2 * time.Hour))), Runtime: time.Duration(random.Int64N(int64(time.Hour)))}})
	}
	b.ReportAllocs()
	for b.Loop() {
		Cost(r)
	}
}
