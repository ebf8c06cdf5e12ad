package purchase

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/packing"
)

const hour = time.Hour

// mixed is the plan for pods and flavors alone.
func mixed(pods []Pod, flavors []Flavor, opts MixOptions) Plan {
	return Supercargo(Request{Pods: pods, Flavors: flavors, Options: opts}).Plan
}

func TestMixBuysTheCheapestMachines(t *testing.T) {
	arm := func(f Flavor) Flavor { f.Arch = "arm64"; return f }
	needs := func(p Pod, arch string) Pod { p.Arch = arch; return p }
	few := func(f Flavor, n int64) Flavor { f.MaxPods = new(n); return f }
	tests := []struct {
		name    string
		pods    []Pod
		flavors []Flavor
		opts    MixOptions
		want    []string
	}{
		{"nothing pending buys nothing", nil, []Flavor{flavor("s", 1, 1, 1)}, MixOptions{}, []string{}},
		{"the cheapest flavor that holds the pod", []Pod{pod("a", 5, 5)},
			[]Flavor{flavor("tiny", 4, 9, 1), flavor("large", 9, 9, 3), flavor("fit", 5, 5, 2)}, MixOptions{}, []string{"fit-0: a"}},
		{"a large machine where it is cheaper than small ones", []Pod{pod("a", 10, 10), pod("b", 10, 10)},
			[]Flavor{flavor("large", 20, 20, 19), flavor("small", 10, 10, 10)}, MixOptions{}, []string{"large-0: a b"}},
		{"small machines where they are cheaper", []Pod{pod("a", 10, 10), pod("b", 10, 10)},
			[]Flavor{flavor("large", 20, 20, 21), flavor("small", 10, 10, 10)}, MixOptions{}, []string{"small-0: a", "small-1: b"}},
		{"of equal bills that with fewer machines", []Pod{pod("a", 10, 10), pod("b", 10, 10)},
			[]Flavor{flavor("large", 20, 20, 20), flavor("small", 10, 10, 10)}, MixOptions{}, []string{"large-0: a b"}},
		{"of equal flavors that whose name comes first", []Pod{pod("a", 1, 1)},
			[]Flavor{flavor("y", 1, 1, 1), flavor("x", 2, 2, 1)}, MixOptions{}, []string{"x-0: a"}},
		// Greedy packs a and b, the largest, and buys two large machines and a small one.
		{"pods that ask for CPU go with pods that ask for memory",
			[]Pod{pod("a", 1, 9), pod("b", 1, 9), pod("c", 9, 1), pod("d", 9, 1)},
			[]Flavor{flavor("f", 10, 10, 10), flavor("g", 20, 20, 21)}, MixOptions{}, []string{"f-0: a c", "f-1: b d"}},
		// The last one, c and d on f, costs 10; c, d and e separately on small ones cost 12.
		{"a mix of flavors", []Pod{pod("a", 9, 9), pod("b", 9, 9), pod("c", 4, 4), pod("d", 4, 4), pod("e", 1, 1)},
			[]Flavor{flavor("f", 10, 10, 9), flavor("small", 4, 4, 4)}, MixOptions{},
			[]string{"small-0: c", "small-1: d", "f-0: a", "f-1: b e"}},
		{"max pods", []Pod{pod("a", 1, 1), pod("b", 1, 1), pod("c", 1, 1)},
			[]Flavor{few(flavor("f", 9, 9, 1), 2)}, MixOptions{}, []string{"f-0: a", "f-1: b c"}},
		{"what costs nothing is bought, but no more of it than needed", []Pod{pod("a", 1, 1), pod("b", 1, 1), pod("c", 1, 1)},
			[]Flavor{flavor("gift", 2, 2, 0), flavor("f", 9, 9, 1)}, MixOptions{}, []string{"gift-0: a", "gift-1: b c"}},
		{"pods that ask for nothing share the cheapest machine", []Pod{pod("a", 0, 0), pod("b", 0, 0)},
			[]Flavor{flavor("f", 2, 2, 2), flavor("g", 0, 0, 1)}, MixOptions{}, []string{"g-0: a b"}},
		{"pods go to machines of their architecture, and others where it is cheapest",
			[]Pod{needs(pod("a", 1, 1), "arm64"), needs(pod("b", 1, 1), "amd64"), pod("c", 9, 9), needs(pod("d", 1, 1), "riscv64")},
			[]Flavor{arm(flavor("arm", 9, 9, 4)), {Name: "amd", Arch: "amd64", Size: size(9, 9), MicroDollarsPerHour: 5}},
			MixOptions{}, []string{"arm-0: c", "arm-1: a", "amd-0: b", "d -"}},
		{"pods that no flavor holds", []Pod{pod("a", 11, 1), pod("b", 1, 1), pod("c", -1, 0)},
			[]Flavor{flavor("f", 10, 5, 1)}, MixOptions{}, []string{"f-0: b", "a -", "c -"}},
		{"no flavors", []Pod{pod("a", 1, 1)}, nil, MixOptions{}, []string{"a -"}},

		{"jobs that end together share a machine", []Pod{job("a", 5, 5, hour), job("b", 5, 5, 9*hour), job("c", 5, 5, hour), job("d", 5, 5, 9*hour)},
			[]Flavor{flavor("f", 10, 10, 1)}, MixOptions{}, []string{"f-0: b d", "f-1: a c"}},
		{"a service keeps its machine for long, so that jobs stay apart from it",
			[]Pod{pod("a", 5, 5), pod("b", 5, 5), job("c", 5, 5, hour), job("d", 5, 5, hour)},
			[]Flavor{flavor("f", 10, 10, 1)}, MixOptions{}, []string{"f-0: a b", "f-1: c d"}},
		{"the machine that is paid for longest comes first", []Pod{job("a", 5, 5, hour), job("b", 10, 10, 2*hour)},
			[]Flavor{flavor("large", 10, 10, 9), flavor("small", 5, 5, 4)}, MixOptions{}, []string{"large-0: b", "small-0: a"}},
		// Together on large: 9 h at 20; apart 9 h at 10 and 1 h at 10.
		{"a short job is not worth room on a large machine for long", []Pod{job("a", 5, 5, hour), job("b", 10, 10, 9*hour)},
			[]Flavor{flavor("large", 15, 15, 15), flavor("small", 10, 10, 10)}, MixOptions{}, []string{"small-0: b", "small-1: a"}},
		// Apart: 10 + 10 hours at 10, with the setup; together 18 hours at 15.
		{"unless each machine takes long to set up", []Pod{job("a", 5, 5, hour), job("b", 10, 10, 9*hour)},
			[]Flavor{flavor("large", 15, 15, 15), flavor("small", 10, 10, 10)}, MixOptions{Setup: 9 * hour}, []string{"large-0: a b"}},
		{"or is paid for a long period", []Pod{job("a", 5, 5, hour), job("b", 10, 10, 9*hour)},
			[]Flavor{flavor("large", 15, 15, 15), flavor("small", 10, 10, 10)}, MixOptions{Period: 9 * hour}, []string{"large-0: a b"}},
		{"or services are taken to be short", []Pod{job("a", 5, 5, hour), pod("b", 10, 10)},
			[]Flavor{flavor("large", 15, 15, 15), flavor("small", 10, 10, 10)}, MixOptions{Unbounded: hour}, []string{"large-0: a b"}},

		{"a limit that leaves out as few as it must", []Pod{pod("a", 9, 9), pod("b", 9, 9), pod("c", 5, 5), pod("d", 5, 5)},
			[]Flavor{flavor("f", 10, 10, 1)}, MixOptions{MaxMachines: 2}, []string{"f-0: a", "f-1: c d", "b -"}},
		{"a limit makes more expensive machines worth it", []Pod{pod("a", 9, 9), pod("b", 9, 9)},
			[]Flavor{flavor("f", 10, 10, 1), flavor("g", 20, 20, 9)}, MixOptions{MaxMachines: 1}, []string{"g-0: a b"}},
		{"of the pods left out none is cheap to keep", []Pod{job("a", 9, 9, 2*hour), job("b", 9, 9, hour)},
			[]Flavor{flavor("f", 10, 10, 1)}, MixOptions{MaxMachines: 1}, []string{"f-0: b", "a -"}},
		{"negative options count as none", []Pod{pod("a", 9, 9), pod("b", 9, 9)}, []Flavor{flavor("f", 10, 10, 1)},
			MixOptions{Setup: -hour, Period: -hour, Unbounded: -hour, MaxMachines: -1, Effort: -1}, []string{"f-0: a", "f-1: b"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, bought(mixed(tc.pods, tc.flavors, tc.opts))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachinesOfAMixSayWhatTheyAreBoughtFor(t *testing.T) {
	got := mixed([]Pod{pod("b", 1000, 40), job("a", 500, 20, hour), pod("c", 9, 9)},
		[]Flavor{flavor("big", 3000, 60, 200_000), flavor("gift", 9, 9, 0)}, MixOptions{})
	want := Plan{
		Machines: []Machine{{
			Flavor: "gift", Name: "gift-0", Pods: []string{"c"}, Used: size(9, 9), CPU: 1, Memory: 1, Score: math.Inf(1),
			Reason: "the cheapest found to hold its only pod, which uses 100.0 % of its CPU and 100.0 % of its memory, at $0.0000/h",
		}, {
			Flavor: "big", Name: "big-0", Pods: []string{"a", "b"}, Used: size(1500, 60), CPU: 0.5, Memory: 1, Score: 3.75,
			MicroDollarsPerHour: 200_000,
			Reason:              "the cheapest found to hold its 2 pods, which use 50.0 % of its CPU and 100.0 % of its memory, at $0.2000/h",
		}},
		Assignments:         []Assignment{{Pod: "a", Machine: "big-0"}, {Pod: "b", Machine: "big-0"}, {Pod: "c", Machine: "gift-0"}},
		MicroDollarsPerHour: 200_000,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	empty := mixed([]Pod{pod("a", 0, 0)}, []Flavor{flavor("gift", 0, 9, 0)}, MixOptions{})
	if m := empty.Machines[0]; m.CPU != 0 || m.Memory != 0 || !math.IsInf(m.Score, 1) {
		t.Errorf("a free machine with nothing used: %+v", m)
	}
	limited := mixed([]Pod{pod("a", 9, 3), pod("b", 9, 3)}, []Flavor{flavor("f", 10, 5, 1)}, MixOptions{MaxMachines: 1})
	if diff := cmp.Diff([]Unplaceable{{Pod: "b", Reason: "the plan may buy at most 1 machines", Limited: true}}, limited.Unplaceable); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMachineIsPaidForSetupAndRuntimeInWholePeriods(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	tests := []struct {
		name    string
		opts    MixOptions
		runtime time.Duration
		want    time.Duration
	}{
		{"as it passes", MixOptions{}, 90 * time.Second, 90 * time.Second},
		{"no runtime", MixOptions{}, 0, 24 * hour},
		{"a negative runtime", MixOptions{Unbounded: hour}, -1, hour},
		{"setup", MixOptions{Setup: time.Minute}, hour, 61 * time.Minute},
		{"whole periods", MixOptions{Period: hour}, 2 * hour, 2 * hour},
		{"a period that has started", MixOptions{Period: hour}, 2*hour + 1, 3 * hour},
		{"setup is in the period", MixOptions{Setup: 1, Period: hour}, 2 * hour, 3 * hour},
		{"a service in periods", MixOptions{Unbounded: time.Minute, Period: hour}, 0, hour},
		{"too long", MixOptions{Setup: longest}, longest, longest},
		{"too long once rounded", MixOptions{Setup: longest, Period: longest - 1}, longest, longest},
		{"a negative setup and period", MixOptions{Setup: -hour, Period: -hour}, hour, hour},
	}
	for _, tc := range tests {
		if got := tc.opts.Paid(tc.runtime); got != tc.want {
			t.Errorf("%s: Paid(%v) = %v, want %v", tc.name, tc.runtime, got, tc.want)
		}
	}
}

// score is the quality of a plan by the objective of Mix, computed by its definition from the plan alone.
type score struct {
	missing  int
	bill     *big.Int // micro-dollars per hour times nanoseconds
	machines int
}

func scoreOf(plan Plan, pods []Pod, opts MixOptions) score {
	paid := map[string]int64{}
	for _, p := range pods {
		paid[p.Name] = paidByWords(p.Runtime, opts)
	}
	s := score{len(plan.Unplaceable), new(big.Int), len(plan.Machines)}
	for _, m := range plan.Machines {
		var longest int64
		for _, name := range m.Pods {
			longest = max(longest, paid[name])
		}
		s.bill.Add(s.bill, new(big.Int).Mul(big.NewInt(m.MicroDollarsPerHour), big.NewInt(longest)))
	}
	return s
}

func paidByWords(runtime time.Duration, opts MixOptions) int64 {
	if runtime == 0 {
		runtime = opts.Unbounded
		if runtime == 0 {
			runtime = 24 * hour
		}
	}
	paid := int64(opts.Setup + runtime)
	for opts.Period > 0 && paid%int64(opts.Period) != 0 {
		paid += int64(opts.Period) - paid%int64(opts.Period)
	}
	return paid
}

func (s score) compare(other score) int {
	switch {
	case s.missing != other.missing:
		return s.missing - other.missing
	case s.bill.Cmp(other.bill) != 0:
		return s.bill.Cmp(other.bill)
	}
	return s.machines - other.machines
}

func (s score) String() string {
	return fmt.Sprintf("%d missing, bill %v, %d machines", s.missing, s.bill, s.machines)
}

// bestOfAll tries every division of the pods among machines, and returns the score of the best one.
func bestOfAll(pods []Pod, flavors []Flavor, opts MixOptions) score {
	best := score{missing: len(pods) + 1}
	var groups [][]Pod
	var place func(at, missing int)
	place = func(at, missing int) {
		if at == len(pods) {
			s := score{missing, new(big.Int), len(groups)}
			for _, g := range groups {
				price := cheapestFor(g, flavors)
				if price < 0 {
					return
				}
				var longest int64
				for _, p := range g {
					longest = max(longest, paidByWords(p.Runtime, opts))
				}
				s.bill.Add(s.bill, new(big.Int).Mul(big.NewInt(price), big.NewInt(longest)))
			}
			if s.compare(best) < 0 {
				best = s
			}
			return
		}
		for i := range groups {
			groups[i] = append(groups[i], pods[at])
			place(at+1, missing)
			groups[i] = groups[i][:len(groups[i])-1]
		}
		if opts.MaxMachines == 0 || len(groups) < opts.MaxMachines {
			groups = append(groups, []Pod{pods[at]})
			place(at+1, missing)
			groups = groups[:len(groups)-1]
		}
		if opts.MaxMachines > 0 || cheapestFor(pods[at:at+1], flavors) < 0 {
			place(at+1, missing+1)
		}
	}
	place(0, 0)
	return best
}

// cheapestFor returns the price of the cheapest flavor that holds the pods, or -1.
func cheapestFor(pods []Pod, flavors []Flavor) int64 {
	best := int64(-1)
	for _, f := range flavors {
		var cpu, memory int64
		ok := f.MaxPods == nil || int64(len(pods)) <= *f.MaxPods
		for _, p := range pods {
			cpu, memory = cpu+p.Size.MilliCPU, memory+p.Size.MemoryBytes
			ok = ok && (p.Arch == "" || p.Arch == f.Arch)
		}
		if ok && cpu <= f.Size.MilliCPU && memory <= f.Size.MemoryBytes && (best < 0 || f.MicroDollarsPerHour < best) {
			best = f.MicroDollarsPerHour
		}
	}
	return best
}

func drawMixOptions(t *rapid.T) MixOptions {
	return MixOptions{
		Setup:       time.Duration(rapid.IntRange(0, 2).Draw(t, "setup")) * time.Minute,
		Period:      rapid.SampledFrom([]time.Duration{0, 0, time.Minute, 2 * time.Minute, 7 * time.Minute}).Draw(t, "period"),
		Unbounded:   rapid.SampledFrom([]time.Duration{0, 2 * time.Minute, hour}).Draw(t, "unbounded"),
		MaxMachines: rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "max machines"),
		Effort:      20_000,
	}
}

func TestMixesOfFewPodsAreTheBestThereAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, flavors, opts := drawPods(t), drawFlavors(t), drawMixOptions(t)
		pods = pods[:min(len(pods), 7)]
		plan := mixed(pods, flavors, opts)
		checkPlan(t, plan, pods, flavors)
		if got, want := scoreOf(plan, pods, opts), bestOfAll(pods, flavors, opts); got.compare(want) != 0 {
			t.Fatalf("plan with %v, best %v", got, want)
		}
	})
}

// drawMany draws up to 60 pods of many or few kinds, so that Mix must search.
func drawMany(t *rapid.T) []Pod {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	kinds := 1 + r.IntN(rapid.SampledFrom([]int{3, 60}).Draw(t, "kinds"))
	pods := make([]Pod, mix.ExactItems+1+r.IntN(48))
	for i := range pods {
		of := rand.New(rand.NewPCG(r.Uint64N(uint64(kinds)), 1))
		pods[i] = job(fmt.Sprintf("p%02d", i), of.Int64N(8), of.Int64N(8), time.Duration(of.IntN(4))*time.Minute)
		pods[i].Arch = []string{"", "", "x", "y"}[of.IntN(4)]
		pods[i].Arrival = time.Duration(r.IntN(2))
	}
	return pods
}

func TestMixIsNeverWorseThanGreedy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, flavors, opts := drawMany(t), drawFlavors(t), drawMixOptions(t)
		opts.Effort = rapid.SampledFrom([]int{1, 20_000}).Draw(t, "effort")
		opts.MaxMachines *= 4
		plan := mixed(pods, flavors, opts)
		checkPlan(t, plan, pods, flavors)
		got := scoreOf(plan, pods, opts)
		for _, order := range []Order{Services, Batch} {
			greedy := Greedy(pods, flavors, GreedyOptions{Order: order, MaxMachines: opts.MaxMachines})
			if other := scoreOf(greedy, pods, opts); got.compare(other) > 0 {
				t.Fatalf("plan with %v, greedy in order %d with %v", got, order, other)
			}
		}
		if opts.MaxMachines > 0 && len(plan.Machines) > opts.MaxMachines {
			t.Fatalf("%d machines, at most %d are allowed", len(plan.Machines), opts.MaxMachines)
		}
	})
}

func TestMachinesOfAMixAreTheCheapestForTheirPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, flavors, opts := drawMany(t), drawFlavors(t), drawMixOptions(t)
		byName := map[string]Pod{}
		for _, p := range pods {
			byName[p.Name] = p
		}
		for _, m := range mixed(pods, flavors, opts).Machines {
			var on []Pod
			for _, name := range m.Pods {
				on = append(on, byName[name])
			}
			if least := cheapestFor(on, flavors); m.MicroDollarsPerHour != least {
				t.Fatalf("%s costs %d, and its pods fit a machine for %d", m.Name, m.MicroDollarsPerHour, least)
			}
		}
	})
}

func TestNoPodIsLeftOutThatAMachineOfItsOwnFlavorOrAnotherCouldTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, flavors, opts := drawMany(t), drawFlavors(t), drawMixOptions(t)
		opts.MaxMachines = rapid.IntRange(1, 6).Draw(t, "limit")
		opts.Effort = rapid.SampledFrom([]int{1, 20_000}).Draw(t, "effort")
		byName := map[string]Pod{}
		for _, p := range pods {
			byName[p.Name] = p
		}
		plan := mixed(pods, flavors, opts)
		for _, u := range plan.Unplaceable {
			if cheapestFor([]Pod{byName[u.Pod]}, flavors) < 0 {
				continue
			}
			if len(plan.Machines) < opts.MaxMachines {
				t.Fatalf("%s is left out, and one more machine is allowed", u.Pod)
			}
			for _, m := range plan.Machines {
				with := []Pod{byName[u.Pod]}
				for _, name := range m.Pods {
					with = append(with, byName[name])
				}
				if cheapestFor(with, flavors) >= 0 {
					t.Fatalf("%s is left out, and could be on %s", u.Pod, m.Name)
				}
			}
		}
	})
}

func TestTheOrderOfArgumentsDoesNotChangeAMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, flavors, opts := drawMany(t), drawFlavors(t), drawMixOptions(t)
		want := mixed(pods, flavors, opts)
		before := slices.Clone(pods)
		got := mixed(rapid.Permutation(pods).Draw(t, "shuffled pods"), rapid.Permutation(flavors).Draw(t, "shuffled flavors"), opts)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("plan (-in order +shuffled):\n%s", diff)
		}
		if diff := cmp.Diff(before, pods); diff != "" {
			t.Fatalf("pods (-before +after):\n%s", diff)
		}
	})
}

func TestAMixStaysTheSameIfAllPricesAreMultiplied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, flavors, opts := drawMany(t), drawFlavors(t), drawMixOptions(t)
		k := rapid.Int64Range(2, 1_000_000).Draw(t, "times")
		want := bought(mixed(pods, flavors, opts))
		for i := range flavors {
			flavors[i].MicroDollarsPerHour *= k
		}
		if diff := cmp.Diff(want, bought(mixed(pods, flavors, opts))); diff != "" {
			t.Fatalf("plan (-before +after):\n%s", diff)
		}
	})
}

// TestPodsCutFromFullMachinesFillThemAgain has a known best bill, because no room is left over: the prices of flavors
// are proportional to their size, and machines cannot be fuller.
func TestPodsCutFromFullMachinesFillThemAgain(t *testing.T) {
	flavors := []Flavor{flavor("large", 80, 80, 80), flavor("medium", 40, 40, 40), flavor("small", 20, 20, 20)}
	cuts := [][]packing.Size{
		{size(10, 5), size(5, 10), size(5, 5)}, {size(13, 7), size(7, 13)}, {size(3, 17), size(14, 2), size(3, 1)},
	}
	for _, copies := range []int{1, 10, 300} {
		var pods []Pod
		for _, cut := range cuts {
			for range copies {
				for _, s := range cut {
					pods = append(pods, pod(fmt.Sprint("p", len(pods)), s.MilliCPU, s.MemoryBytes))
				}
			}
		}
		if got, want := mixed(pods, flavors, MixOptions{}).MicroDollarsPerHour, int64(copies*len(cuts)*20); got != want {
			t.Errorf("%d pods cost %d, want %d", len(pods), got, want)
		}
	}
}

func TestMixesAreNoCheaperThanTheBound(t *testing.T) {
	for _, s := range scenes {
		r := rand.New(rand.NewPCG(3, 3))
		flavors := s.market(r)
		var pods []Pod
		for i := range 60 {
			if p := s.load(r, fmt.Sprint(i)); unplaceable(p, flavors) == "" {
				pods = append(pods, p)
			}
		}
		s.opts.Effort = 500_000
		got, least := microDollars(mixed(pods, flavors, s.opts), pods, s.opts), lowerBound(pods, flavors, s.opts)
		if !(got >= least*(1-1e-9)) {
			t.Errorf("%s: $%.6f, below the bound of $%.6f", s.name, got/1e6, least/1e6)
		}
	}
}

// TestMixSavesOnRealisticPods guards the quality of the plans, with fewer steps than the default.
func TestMixSavesOnRealisticPods(t *testing.T) {
	mean := 0.0
	for _, s := range scenes {
		r := rand.New(rand.NewPCG(5, 5))
		flavors := s.market(r)
		var pods []Pod
		for i := range 200 {
			pods = append(pods, s.load(r, fmt.Sprint(i)))
		}
		s.opts.Effort = 1_000_000
		dollars := func(p Plan) float64 { return microDollars(p, pods, s.opts) }
		greedy := min(dollars(Greedy(pods, flavors, GreedyOptions{})), dollars(Greedy(pods, flavors, GreedyOptions{Order: Batch})))
		saved := 1 - dollars(mixed(pods, flavors, s.opts))/greedy
		t.Logf("%s: %.1f %% saved", s.name, 100*saved)
		mean += saved / float64(len(scenes))
	}
	if !(mean > 0.035) {
		t.Errorf("%.1f %% saved on average, want more than 3.5 %%", 100*mean)
	}
}

func TestThousandsOfKindsArePlannedFor(t *testing.T) {
	for _, s := range []int{1, 8} {
		r := rand.New(rand.NewPCG(6, 6))
		flavors := scenes[s].market(r)
		var pods []Pod
		for i := range 2500 {
			pods = append(pods, scenes[s].load(r, fmt.Sprint(i)))
		}
		opts := scenes[s].opts
		opts.Effort = 100_000
		plan := mixed(pods, flavors, opts)
		checkPlan(t, plan, pods, flavors)
		opts.MaxMachines = len(plan.Machines) / 3
		limited := mixed(pods, flavors, opts)
		checkPlan(t, limited, pods, flavors)
		if len(limited.Machines) > opts.MaxMachines {
			t.Errorf("%d machines, at most %d are allowed", len(limited.Machines), opts.MaxMachines)
		}
	}
}

func TestGreatNumbersAreNoTrouble(t *testing.T) {
	const most = math.MaxInt64
	var pods []Pod
	for i := range 20 {
		pods = append(pods, job(fmt.Sprint(i), most/4, most/4, most-time.Duration(i)))
	}
	flavors := []Flavor{flavor("f", most, most, most/40), flavor("g", most/4, most/4, most/80)}
	for _, opts := range []MixOptions{{}, {Setup: most, Period: most, Unbounded: most, MaxMachines: 3}} {
		plan := mixed(pods, flavors, opts)
		if opts.MaxMachines == 0 && len(plan.Machines) != 5 {
			t.Errorf("%d machines, want 5 with four pods each", len(plan.Machines))
		}
		if opts.MaxMachines == 3 && len(plan.Unplaceable) != 8 {
			t.Errorf("%d pods left out, want 8", len(plan.Unplaceable))
		}
	}
}

// FuzzMix reads pods and flavors from bytes, four for each pod.
func FuzzMix(f *testing.F) {
	f.Add([]byte("0123456789abcdefghij0123456789ABCDEFGHIJ0123456789abcdefghij0123456789"), uint8(0), uint16(0), uint16(0))
	f.Add([]byte(strings.Repeat("\x03\x05\x01\x02\x09\x01\x00\x03", 12)), uint8(3), uint16(60), uint16(7))
	f.Add([]byte{1, 2, 3, 4}, uint8(1), uint16(1), uint16(1))
	f.Fuzz(func(t *testing.T, raw []byte, limit uint8, period, setup uint16) {
		var pods []Pod
		for i := 0; i+3 < len(raw) && i < 4*80; i += 4 {
			p := job(fmt.Sprint("p", i), int64(int8(raw[i])), int64(raw[i+1]), time.Duration(raw[i+2]%8))
			p.Arch = []string{"", "x", "y"}[raw[i+3]%3]
			pods = append(pods, p)
		}
		var flavors []Flavor
		for i := 0; i+2 < len(raw) && i < 15; i += 3 {
			fl := flavor(fmt.Sprint("f", i), int64(raw[i]), int64(raw[i+1]), int64(raw[i+2]))
			fl.Arch, fl.MaxPods = []string{"", "x", "y"}[i%3], atMost(int64(raw[i]%8))
			flavors = append(flavors, fl)
		}
		opts := MixOptions{Setup: time.Duration(setup), Period: time.Duration(period), MaxMachines: int(limit % 8), Effort: 10_000}
		plan := mixed(pods, flavors, opts)
		if opts.MaxMachines > 0 && len(plan.Machines) > opts.MaxMachines {
			t.Errorf("%d machines, at most %d are allowed", len(plan.Machines), opts.MaxMachines)
		}
		if got, other := scoreOf(plan, pods, opts), scoreOf(Greedy(pods, flavors, GreedyOptions{MaxMachines: opts.MaxMachines}), pods, opts); got.compare(other) > 0 {
			t.Errorf("plan with %v, greedy with %v", got, other)
		}
		checkPlan(t, plan, pods, flavors)
	})
}
