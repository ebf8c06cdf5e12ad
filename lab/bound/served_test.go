package bound

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/test/draw"
)

func TestBillOfServedRunsThatCanBeWorkedOutByHand(t *testing.T) {
	with := func(f Flavor, change func(*Flavor)) Flavor { change(&f); return f }
	small, big := flavor(2, 4, 3), flavor(4, 8, 5)
	endless := service(2, 4, 2, 0)
	tests := []struct {
		name string
		run  Run
		want int64
	}{
		{"nothing to do costs nothing", Run{Flavors: []Flavor{small}}, 0},
		{"nor does a run that is over at once", Run{Pods: []cluster.Pod{service(2, 4, 0, 0)}, Flavors: []Flavor{small}}, 0},
		{"a service is there to the end of the run", Run{Pods: []cluster.Pod{endless}, Flavors: []Flavor{small}, End: 10 * slot}, 24},
		{"or of its lifetime", Run{Pods: []cluster.Pod{service(2, 4, 2, 3)}, Flavors: []Flavor{small}, End: 10 * slot}, 9},
		{"but for the time that it goes without a machine", Run{Pods: []cluster.Pod{endless}, Flavors: []Flavor{small}, End: 10 * slot, ServiceWait: 2 * slot}, 18},
		{"the dearest of all services may wait for all", Run{Pods: []cluster.Pod{service(2, 4, 0, 4), service(1, 2, 0, 4)}, Flavors: []Flavor{with(small, func(f *Flavor) { f.MicroDollarsPerHour *= 2 })},
			End: 4 * slot, ServiceWait: slot}, 24}, // 36 in total, minus 12 for the greater pod's two slots
		{"a fragment of a machine is paid in full", Run{Pods: []cluster.Pod{service(1, 1, 0, 0), service(1, 1, 5, 0)}, Flavors: []Flavor{big, small}, End: 10 * slot}, 30},
		{"the start lag is paid", Run{Pods: []cluster.Pod{endless}, Flavors: []Flavor{small}, End: 10 * slot, StartLag: 2 * slot}, 30},
		{"unless it is free", Run{Pods: []cluster.Pod{endless}, Flavors: []Flavor{small}, End: 10 * slot, StartLag: 2 * slot, LagFree: true}, 24},
		{"and is paid again for a gap that is longer", Run{Pods: []cluster.Pod{service(2, 4, 2, 1), service(2, 4, 8, 1)}, Flavors: []Flavor{small}, End: 10 * slot, StartLag: 2 * slot}, 18},
		{"but not for one that is shorter", Run{Pods: []cluster.Pod{service(2, 4, 2, 1), service(2, 4, 4, 1)}, Flavors: []Flavor{small}, End: 10 * slot, StartLag: 2 * slot}, 15},
		{"a machine of the start has no lag", Run{Pods: []cluster.Pod{service(2, 4, 0, 0)}, Flavors: []Flavor{small}, Machines: []Machines{{small, 1}}, End: 10 * slot, StartLag: 2 * slot}, 30},
		{"the second one has", Run{Pods: []cluster.Pod{service(2, 4, 0, 0), service(2, 4, 4, 0)}, Flavors: []Flavor{small}, Machines: []Machines{{small, 1}}, End: 10 * slot, StartLag: 2 * slot}, 54},
		{"a started period is paid", Run{Pods: []cluster.Pod{service(2, 4, 2, 1)}, Flavors: []Flavor{small}, End: 10 * slot, BillingPeriod: 4 * slot}, 12},
		{"and may be long enough for the lag", Run{Pods: []cluster.Pod{service(2, 4, 2, 1)}, Flavors: []Flavor{small}, End: 10 * slot, BillingPeriod: 4 * slot, StartLag: 2 * slot}, 12},
		{"at the peak each service needs its room", Run{Pods: []cluster.Pod{service(2, 4, 2, 1), service(2, 4, 2, 1), service(2, 4, 2, 1)}, Flavors: []Flavor{small}, End: 9 * slot, BillingPeriod: 4 * slot}, 36},
		{"batch work has the lag too", Run{Pods: []cluster.Pod{batch(2, 4, 0, 5)}, Flavors: []Flavor{small}, StartLag: 2 * slot}, 21},
		{"batch work shares the machine of a service", Run{Pods: []cluster.Pod{service(1, 2, 2, 8), batch(1, 2, 0, 5)}, Flavors: []Flavor{small}, End: 10 * slot, StartLag: 2 * slot}, 30},
		{"batch work makes the run longer", Run{Pods: []cluster.Pod{service(2, 4, 0, 0), batch(2, 4, 5, 7)}, Flavors: []Flavor{small}}, 57},
		{"a fixed cluster is paid to the end anyway", Run{Pods: []cluster.Pod{service(1, 1, 3, 4)}, Machines: []Machines{{big, 1}}, Fixed: true, End: 10 * slot}, 50},
		{"services run no longer on a slow machine", Run{Pods: []cluster.Pod{service(2, 4, 0, 0)}, Flavors: []Flavor{with(small, func(f *Flavor) { f.Speed = 0.5 })}, End: 10 * slot}, 30},
		{"pods that fit nowhere add nothing and lend no time", Run{Pods: []cluster.Pod{endless, service(9, 9, 0, 0)}, Flavors: []Flavor{small}, End: 10 * slot, ServiceWait: slot}, 21},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := Served(tc.run); got != tc.want {
				t.Errorf("bound is %d, want %d", got, tc.want)
			}
		})
	}
}

// rented is a machine in the exhaustive search. credit is the number of remaining slots that are
// already paid.
type rented struct{ flavor, credit int }

// search finds the cheapest run that serves its services by trying, slot by slot, every way to put
// pods on machines, to buy and to release. A machine is bought in time for the first slot in which
// it has a pod: an empty one may as well be bought later. Only initial machines that are released
// at once have a release lag.
type search struct {
	Run
	flavors     []Flavor // those that can be bought, then those of the initial machines
	forSale     int      // how many of them can be bought
	slots       int
	lag, period int
	known       map[string]int64
	steps       int // so far
}

// moment is the state on which the rest of a run depends.
type moment struct {
	now      int
	left     []int // remaining work of batch pods; remaining lifetime of services, -1 to the end of the run
	began    []bool
	spare    int // slots that services may still be without a machine
	machines []rented
}

// cheapestServed returns the least cost of a run in which services are without a machine for the
// given number of slots in total, or never if that is impossible.
//
// It gives up on the few runs with so many schedules that an exhaustive search takes minutes.
func cheapestServed(r Run, missing, slots int) (cost int64, all bool) {
	w := search{
		Run: r, slots: slots, lag: int(r.StartLag / slot), period: int(r.BillingPeriod / slot),
		known: map[string]int64{}, flavors: slices.Clone(r.Flavors), forSale: len(r.Flavors),
	}
	m := moment{spare: missing, began: make([]bool, len(r.Pods))}
	for _, p := range r.Pods {
		m.left = append(m.left, int(p.Runtime/slot))
		if p.Class == class.Service && p.Runtime == 0 {
			m.left[len(m.left)-1] = -1
		}
	}
	for _, start := range r.Machines {
		w.flavors = append(w.flavors, start.Flavor)
		paid := int(started(int64(r.ReleaseLag), int64(r.BillingPeriod)) / int64(slot))
		for range start.Count {
			m.machines = append(m.machines, rented{flavor: len(w.flavors) - 1, credit: paid})
			cost += w.price(len(w.flavors)-1) * int64(paid)
		}
	}
	cost += w.cost(m)
	return cost, w.steps <= mostSteps
}

// mostSteps limits the search to some seconds.
const mostSteps = 5_000_000

func (w *search) price(flavor int) int64 { return w.flavors[flavor].MicroDollarsPerHour / 60 }

// cost returns the cost of the rest of a run.
func (w *search) cost(m moment) int64 {
	over := m.now >= int(w.End/slot)
	for i, p := range w.Pods {
		over = over && (p.Class == class.Service || m.left[i] == 0)
	}
	if over {
		return 0
	}
	if m.now == w.slots {
		return never
	}
	slices.SortFunc(m.machines, func(a, b rented) int {
		return (a.flavor-b.flavor)*100 + a.credit - b.credit
	})
	key := fmt.Sprint(m)
	cost, ok := w.known[key]
	if !ok {
		rooms := make([]*room, len(m.machines))
		for i, of := range m.machines {
			rooms[i] = newRoom(w.flavors[of.flavor])
		}
		cost = w.place(0, m, rooms, make([]int, len(m.machines)), slices.Clone(m.left), slices.Clone(m.began))
		w.known[key] = cost
	}
	return cost
}

// place decides where pod i and the following pods are in this slot.
func (w *search) place(i int, m moment, rooms []*room, pods, left []int, began []bool) int64 {
	if w.steps++; w.steps > mostSteps {
		return never
	}
	if i == len(w.Pods) {
		next := m
		next.left, next.began = slices.Clone(left), slices.Clone(began)
		return w.keep(0, next, pods, nil)
	}
	p := w.Pods[i]
	present := m.now >= int(p.Arrival/slot) && left[i] != 0
	best := w.without(i, present, m, rooms, pods, left, began)
	if !present {
		return best
	}
	on := func(at int) int64 {
		r := rooms[at]
		if !p.Size.Fits(r.free) || r.pods == 0 || p.Arch != "" && p.Arch != r.arch {
			return never
		}
		before, had, start := *r, left[i], began[i]
		r.free, r.pods = r.free.Minus(p.Size), r.pods-1
		pods[at]++
		switch {
		case p.Class != class.Service:
			left[i] = max(0, left[i]-r.speed)
		case left[i] > 0:
			left[i]--
		}
		began[i] = true
		cost := w.place(i+1, m, rooms, pods, left, began)
		*r, left[i], began[i] = before, had, start
		pods[at]--
		return cost
	}
	for at := range rooms {
		if at == 0 || m.machines[at] != m.machines[at-1] || *rooms[at] != *rooms[at-1] { // identical machines give identical results
			best = min(best, on(at))
		}
	}
	if m.now < w.lag {
		return best
	}
	machines, paid := m.machines, w.lag
	if w.LagFree {
		paid = 0
	}
	for f := range w.forSale {
		periods := (paid + w.period - 1) / w.period
		m.machines = append(slices.Clone(machines), rented{flavor: f, credit: periods*w.period - paid})
		rooms, pods = append(rooms, newRoom(w.flavors[f])), append(pods, 0)
		best = min(best, int64(periods*w.period)*w.price(f)+on(len(rooms)-1))
		rooms, pods = rooms[:len(rooms)-1], pods[:len(pods)-1]
	}
	return best
}

// without decides about the pods after i, which is on no machine in this slot.
func (w *search) without(i int, present bool, m moment, rooms []*room, pods, left []int, began []bool) int64 {
	if !present || w.Pods[i].Class != class.Service {
		return w.place(i+1, m, rooms, pods, left, began)
	}
	if m.spare == 0 {
		return never
	}
	m.spare--
	had := left[i]
	if left[i] > 0 && began[i] {
		left[i]-- // its lifetime continues
	}
	cost := w.place(i+1, m, rooms, pods, left, began)
	left[i] = had
	return cost
}

// keep decides which machines without pods are released, and pays for the slot.
func (w *search) keep(i int, m moment, pods []int, kept []rented) int64 {
	if w.steps++; w.steps > mostSteps {
		return never
	}
	if i == len(m.machines) {
		m.now++
		m.machines = slices.Clone(kept)
		return w.cost(m)
	}
	cost, of := int64(0), m.machines[i]
	if of.credit == 0 {
		cost, of.credit = int64(w.period)*w.price(of.flavor), w.period
	}
	of.credit--
	cost += w.keep(i+1, m, pods, append(slices.Clip(kept), of))
	if pods[i] == 0 {
		cost = min(cost, w.keep(i+1, m, pods, kept))
	}
	return cost
}

// drawServed returns a random run and the number of slots that its services are without a machine.
func drawServed(t *rapid.T) (r Run, missing int) {
	end := rapid.IntRange(1, 4).Draw(t, "end")
	r = Run{
		Pods:          rapid.SliceOfN(rapid.Custom(drawPod), 1, 4).Draw(t, "pods"),
		Flavors:       rapid.SliceOfN(rapid.Custom(drawFlavor), 1, 2).Draw(t, "flavors"),
		BillingPeriod: time.Duration(rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "period")) * slot,
		ReleaseLag:    time.Duration(rapid.IntRange(0, min(2, end)).Draw(t, "release lag")) * slot,
		End:           time.Duration(end) * slot,
		StartLag:      time.Duration(rapid.IntRange(0, 2).Draw(t, "start lag")) * slot,
		LagFree:       rapid.IntRange(0, 3).Draw(t, "lag free") == 0,
	}
	if rapid.Bool().Draw(t, "machine") {
		r.Machines = []Machines{{Flavor: drawFlavor(t), Count: 1}}
	}
	services := int64(0)
	for i := range r.Pods {
		p := &r.Pods[i]
		p.Runtime = min(p.Runtime, 2*slot)
		p.Class = rapid.SampledFrom([]class.Class{class.Service, class.Batch}).Draw(t, "class")
		if p.Class == class.Service && rapid.Bool().Draw(t, "endless") {
			p.Runtime = 0
		}
		if p.Class == class.Service {
			p.Arrival += r.StartLag // no machine can exist before that
		}
		if problem := prepare(r); p.Class == class.Service && problem.holdable(*p) {
			services++
		}
	}
	if missing = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "missing"); services > 0 {
		r.ServiceWait = time.Duration(missing) * slot / time.Duration(services)
	}
	return r, missing
}

func TestNoScheduleThatServesIsCheaperThanTheBound(t *testing.T) {
	reached, better, possible := 0, 0, 0
	property := func(t *rapid.T) {
		r, missing := drawServed(t)
		least, all := cheapestServed(r, missing, 6)
		if !all {
			t.Skip("too many schedules to check: rapid draws another run, and fails if most are such")
		}
		bound := Served(r)
		if least >= never {
			return
		}
		possible++
		if bound > least {
			t.Fatalf("bound %d, but the run can be had for %d", bound, least)
		}
		before := Cost(r).MicroDollars
		if bound < before {
			t.Fatalf("bound %d, less than %d without services", bound, before)
		}
		if bound >= least-1 {
			reached++
		}
		if bound > before {
			better++
		}
	}
	draw.Fixed(t, 100, property)
	t.Logf("reached in %d, better than without services in %d of %d runs", reached, better, possible)
	if reached*3 < possible || better*20 < possible {
		t.Errorf("the bound is reached in %d and better than without services in %d of %d runs only", reached, better, possible)
	}
	rapid.Check(t, property)
}

func TestTheOrderOfPodsDoesNotMatterToTheServedBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _ := drawServed(t)
		want := Served(r)
		r.Pods = rapid.Permutation(r.Pods).Draw(t, "pods shuffled")
		if got := Served(r); got != want {
			t.Fatalf("bound %d, and %d in another order", want, got)
		}
	})
}

func BenchmarkServed(b *testing.B) {
	r := Run{
		Machines:      []Machines{{Flavor{Flavor: cluster.Flavor{Size: size(2000, 8<<30), MicroDollarsPerHour: 137_100}}, 2}},
		BillingPeriod: slot, ReleaseLag: 5 * time.Second, StartLag: 150 * time.Second, End: 2 * time.Hour, ServiceWait: slot,
	}
	for i := range int64(8) {
		r.Flavors = append(r.Flavors, Flavor{Flavor: cluster.Flavor{Size: size(1000<<i, 2<<30<<i), MaxPods: new(int64(110)), MicroDollarsPerHour: 34_000<<i - i*900}, Speed: 1})
	}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 10_000 {
		r.Pods = append(r.Pods, cluster.Pod{Item: packing.Item{Size: size(random.Int64N(2000), random.Int64N(8<<30)), Arrival: time.Duration(random.Int64N(int64(2 * time.Hour))), Runtime: time.Duration(random.Int64N(int64(time.Hour)))}, Class: []class.Class{class.Service, class.Batch, class.Batch, class.Batch}[i%4]})
	}
	b.ReportAllocs()
	for b.Loop() {
		Served(r)
	}
}
