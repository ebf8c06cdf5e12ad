package purchase

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/packing"
)

func size(cpu, memory int64) packing.Size { return packing.Size{MilliCPU: cpu, MemoryBytes: memory} }

func pod(name string, cpu, memory int64) Pod {
	return Pod{Item: packing.Item{Name: name, Size: size(cpu, memory)}}
}

func job(name string, cpu, memory int64, runtime time.Duration) Pod {
	p := pod(name, cpu, memory)
	p.Runtime = runtime
	return p
}

func flavor(name string, cpu, memory, price int64) Flavor {
	return Flavor{Name: name, Size: size(cpu, memory), MicroDollarsPerHour: price}
}

// bought formats a plan as lines "machine: pods", "pod waits for node" and "pod -".
func bought(p Plan) []string {
	lines := []string{}
	for _, m := range p.Machines {
		lines = append(lines, m.Name+": "+strings.Join(m.Pods, " "))
	}
	for _, a := range p.Assignments {
		if a.Waits {
			lines = append(lines, a.Pod+" waits for "+a.Machine)
		}
	}
	for _, u := range p.Unplaceable {
		lines = append(lines, u.Pod+" -")
	}
	return lines
}

func TestGreedyBuysTheBestScore(t *testing.T) {
	arm := func(f Flavor) Flavor { f.Arch = "arm64"; return f }
	needs := func(p Pod, arch string) Pod { p.Arch = arch; return p }
	few := func(f Flavor, n int64) Flavor { f.MaxPods = new(n); return f }
	tests := []struct {
		name    string
		pods    []Pod
		flavors []Flavor
		opts    GreedyOptions
		want    []string
	}{
		{"nothing pending buys nothing", nil, []Flavor{flavor("s", 1, 1, 1)}, GreedyOptions{}, []string{}},
		{"a small machine for a small load, however much a large one has", []Pod{pod("a", 10, 10)},
			[]Flavor{flavor("large", 100, 100, 80), flavor("small", 10, 10, 10)}, GreedyOptions{}, []string{"small-0: a"}},
		{"a large machine where it is full and cheaper per use", []Pod{pod("a", 10, 10), pod("b", 10, 10)},
			[]Flavor{flavor("large", 20, 20, 19), flavor("small", 10, 10, 10)}, GreedyOptions{}, []string{"large-0: a b"}},
		// large would use 3 of 3 pods: (1+1)/2/40 = 1/40; small (1/3+1/3)/2/10 = 1/30.
		{"the score is per price", []Pod{pod("a", 10, 10), pod("b", 10, 10), pod("c", 10, 10)},
			[]Flavor{flavor("large", 40, 40, 40), flavor("small", 10, 10, 10)}, GreedyOptions{},
			[]string{"small-0: a", "small-1: b", "small-2: c"}},
		// cpu holds the pods with CPU requests: c 20/20, m 2/40; memory: c 2/20, m 40/40. Equal weights of different
		// units: 1.05/10 against 1.1/10.
		{"each resource is divided by the most that a candidate uses", []Pod{pod("c1", 20, 2), pod("m1", 2, 40)},
			[]Flavor{flavor("cpu", 20, 5, 10), flavor("mem", 5, 40, 10)}, GreedyOptions{},
			[]string{"mem-0: m1", "cpu-0: c1"}},
		// The maximum is 10 CPU and 10 memory used, not the 1000 memory that "odd" has: odd 2/20, even 2/21.
		{"what is not used does not count", []Pod{pod("a", 10, 10)},
			[]Flavor{flavor("even", 10, 10, 21), flavor("odd", 10, 1000, 20)}, GreedyOptions{}, []string{"odd-0: a"}},
		{"a machine takes whole pods in order and passes over those that do not fit",
			[]Pod{pod("a", 1, 6), pod("b", 1, 5), pod("c", 1, 4)}, []Flavor{flavor("f", 10, 10, 1)}, GreedyOptions{},
			[]string{"f-0: a c", "f-1: b"}},
		{"batch pods choose by runtime", []Pod{job("a", 1, 6, 1), job("b", 1, 5, 3), job("c", 1, 4, 2)},
			[]Flavor{flavor("f", 10, 10, 1)}, GreedyOptions{Order: Batch}, []string{"f-0: b c", "f-1: a"}},
		{"max pods", []Pod{pod("a", 1, 1), pod("b", 1, 1), pod("c", 1, 1)},
			[]Flavor{few(flavor("f", 9, 9, 1), 2)}, GreedyOptions{}, []string{"f-0: a b", "f-1: c"}},
		{"equal scores: the lower price", []Pod{pod("a", 10, 10), pod("b", 10, 10)},
			[]Flavor{flavor("a-large", 20, 20, 20), flavor("small", 10, 10, 10)}, GreedyOptions{}, []string{"small-0: a", "small-1: b"}},
		{"equal scores and prices: the name", []Pod{pod("a", 1, 1)},
			[]Flavor{flavor("y", 1, 1, 1), flavor("x", 2, 2, 1)}, GreedyOptions{}, []string{"x-0: a"}},
		{"a flavor that holds no pod is no candidate", []Pod{pod("a", 5, 5)},
			[]Flavor{flavor("tiny", 4, 9, 0), flavor("f", 5, 5, 9)}, GreedyOptions{}, []string{"f-0: a"}},
		{"what costs nothing first", []Pod{pod("a", 1, 1), pod("b", 1, 1)},
			[]Flavor{flavor("f", 2, 2, 1), flavor("gift", 1, 1, 0)}, GreedyOptions{}, []string{"gift-0: a", "gift-1: b"}},
		{"pods that ask for nothing cost the least", []Pod{pod("a", 0, 0)},
			[]Flavor{flavor("f", 2, 2, 2), flavor("g", 1, 1, 1)}, GreedyOptions{}, []string{"g-0: a"}},
		{"only CPU is asked for", []Pod{pod("a", 1, 0), pod("b", 1, 0)},
			[]Flavor{flavor("f", 2, 2, 3), flavor("g", 1, 2, 2)}, GreedyOptions{}, []string{"f-0: a b"}},
		{"pods go to machines of their architecture", []Pod{needs(pod("a", 1, 1), "arm64"), pod("b", 1, 1), needs(pod("c", 1, 1), "riscv64")},
			[]Flavor{arm(flavor("arm", 9, 9, 5)), flavor("f", 9, 9, 4)}, GreedyOptions{}, []string{"arm-0: a b", "c -"}},
		{"pods that no flavor holds", []Pod{pod("a", 11, 1), pod("b", 1, 11), pod("c", 6, 6), pod("d", 1, 1), pod("e", -1, 0)},
			[]Flavor{flavor("f", 10, 5, 1), flavor("g", 5, 10, 1)}, GreedyOptions{}, []string{"f-0: d", "a -", "b -", "c -", "e -"}},
		{"no flavors", []Pod{pod("a", 1, 1)}, nil, GreedyOptions{}, []string{"a -"}},
		{"a limit on machines", []Pod{pod("a", 9, 9), pod("b", 9, 9), pod("c", 1, 1)},
			[]Flavor{flavor("f", 10, 10, 1)}, GreedyOptions{MaxMachines: 1}, []string{"f-0: a c", "b -"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, bought(Greedy(tc.pods, tc.flavors, tc.opts))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachinesSayWhatTheyAreBoughtFor(t *testing.T) {
	// small would score (2/3 + 2/3) / 2 / 0.14 = 4.8.
	got := Greedy([]Pod{pod("a", 1000, 40), pod("b", 500, 20)},
		[]Flavor{flavor("big", 3000, 60, 200_000), flavor("small", 1000, 40, 140_000)}, GreedyOptions{})
	want := Plan{
		Machines: []Machine{{
			Flavor: "big", Name: "big-0", Pods: []string{"a", "b"}, Used: size(1500, 60), CPU: 1, Memory: 1, Score: 5,
			MicroDollarsPerHour: 200_000,
			Reason:              "best score of 2 flavors: 2 pods use 1.000 of the most CPU and 1.000 of the most memory for $0.2000/h",
		}},
		Assignments:         []Assignment{{Pod: "a", Machine: "big-0"}, {Pod: "b", Machine: "big-0"}},
		MicroDollarsPerHour: 200_000,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	free := Greedy([]Pod{pod("a", 1, 1)}, []Flavor{flavor("gift", 1, 1, 0)}, GreedyOptions{})
	if m := free.Machines[0]; !math.IsInf(m.Score, 1) || m.Reason != "costs nothing and holds 1 of the pending pods" {
		t.Errorf("a free machine: %+v", m)
	}
}

func TestUnplaceablePodsSayWhatWouldBeNeeded(t *testing.T) {
	flavors := []Flavor{flavor("f", 10, 5, 1), flavor("g", 5, 10, 1)}
	tests := []struct {
		pod     Pod
		flavors []Flavor
		want    string
	}{
		{pod("a", 11, 1), flavors, "requests CPU 11m, but the largest flavor for it has 10m"},
		{pod("a", 1, 11), flavors, "requests 11 bytes of memory, but the largest flavor for it has 10"},
		{pod("a", 6, 6), flavors, "no flavor has both CPU 6m and 6 bytes of memory"},
		{Pod{Item: pod("a", 1, 1).Item, Arch: "arm64"}, flavors, "needs architecture arm64, which no flavor has"},
		{pod("a", 1, 1), nil, "there are no flavors to buy"},
		{pod("a", -1, 2), flavors, "requests a negative amount: CPU -1m, memory 2 bytes"},
	}
	for _, tc := range tests {
		got := Greedy([]Pod{tc.pod}, tc.flavors, GreedyOptions{}).Unplaceable
		if diff := cmp.Diff([]Unplaceable{{Pod: "a", Reason: tc.want}}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	limited := Greedy([]Pod{pod("a", 9, 3), pod("b", 9, 3)}, flavors, GreedyOptions{MaxMachines: 1})
	if diff := cmp.Diff([]Unplaceable{{Pod: "b", Reason: "the plan may buy at most 1 machines"}}, limited.Unplaceable); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// twin is algorithm 3 as described by [Greedy], pod by pod.
func twin(pods []Pod, flavors []Flavor, order Order) []string {
	pods = slices.Clone(pods)
	sort.Slice(pods, func(x, y int) bool { return choosesBefore(pods[x], pods[y], order) })
	var lines []string
	for {
		took := make([][]Pod, len(flavors))
		cpu, memory := make([]int64, len(flavors)), make([]int64, len(flavors))
		for i, f := range flavors {
			for _, p := range pods {
				fits := cpu[i]+p.Size.MilliCPU <= f.Size.MilliCPU && memory[i]+p.Size.MemoryBytes <= f.Size.MemoryBytes
				if fits && (p.Arch == "" || p.Arch == f.Arch) && (f.MaxPods == nil || len(took[i]) < int(*f.MaxPods)) {
					took[i] = append(took[i], p)
					cpu[i], memory[i] = cpu[i]+p.Size.MilliCPU, memory[i]+p.Size.MemoryBytes
				}
			}
		}
		best := twinsChoice(flavors, took, cpu, memory)
		if best < 0 {
			break
		}
		line := flavors[best].Name + ":"
		for _, p := range took[best] {
			line += " " + p.Name
			pods = slices.DeleteFunc(pods, func(o Pod) bool { return o.Name == p.Name })
		}
		lines = append(lines, line)
	}
	for _, p := range pods {
		lines = append(lines, p.Name+" -")
	}
	sort.Strings(lines[len(lines)-len(pods):])
	return lines
}

// twinsChoice is the flavor with the best score among those that take a pod.
func twinsChoice(flavors []Flavor, took [][]Pod, cpu, memory []int64) int {
	best, bestScore := -1, new(big.Rat)
	for i, f := range flavors {
		if len(took[i]) == 0 {
			continue
		}
		nc := new(big.Rat).Add(share(cpu[i], slices.Max(cpu)), share(memory[i], slices.Max(memory)))
		score := nc.Quo(nc, big.NewRat(2*f.MicroDollarsPerHour, 1))
		c := score.Cmp(bestScore)
		if best < 0 || c > 0 || c == 0 && (f.MicroDollarsPerHour < flavors[best].MicroDollarsPerHour ||
			f.MicroDollarsPerHour == flavors[best].MicroDollarsPerHour && f.Name < flavors[best].Name) {
			best, bestScore = i, score
		}
	}
	return best
}

func choosesBefore(a, b Pod, order Order) bool {
	switch {
	case order == Batch && a.Runtime != b.Runtime:
		return a.Runtime > b.Runtime
	case order == Services && a.Size.MemoryBytes != b.Size.MemoryBytes:
		return a.Size.MemoryBytes > b.Size.MemoryBytes
	case order == Services && a.Size.MilliCPU != b.Size.MilliCPU:
		return a.Size.MilliCPU > b.Size.MilliCPU
	case a.Arrival != b.Arrival:
		return a.Arrival < b.Arrival
	}
	return a.Name < b.Name
}

func share(used, most int64) *big.Rat {
	if most == 0 {
		return new(big.Rat)
	}
	return big.NewRat(used, most)
}

// drawPods and drawFlavors keep numbers small, so that ties are common.
func drawPods(t *rapid.T) []Pod {
	pods := make([]Pod, rapid.IntRange(0, 14).Draw(t, "pods"))
	for i := range pods {
		pods[i] = Pod{
			Item: packing.Item{
				Name:    fmt.Sprintf("p%02d", i),
				Size:    size(rapid.Int64Range(0, 7).Draw(t, "cpu"), rapid.Int64Range(0, 7).Draw(t, "memory")),
				Runtime: time.Duration(rapid.IntRange(0, 3).Draw(t, "runtime")) * time.Minute,
				Arrival: time.Duration(rapid.IntRange(0, 2).Draw(t, "arrival")),
			},
			Arch: rapid.SampledFrom([]string{"", "", "x", "y"}).Draw(t, "arch"),
		}
	}
	return pods
}

func drawFlavors(t *rapid.T) []Flavor {
	flavors := make([]Flavor, rapid.IntRange(0, 5).Draw(t, "flavors"))
	for i := range flavors {
		flavors[i] = flavor(fmt.Sprintf("f%d", i), rapid.Int64Range(0, 12).Draw(t, "cpu"),
			rapid.Int64Range(0, 12).Draw(t, "memory"), rapid.Int64Range(1, 5).Draw(t, "price"))
		flavors[i].MaxPods = rapid.Ptr(rapid.Int64Range(1, 3), true).Draw(t, "max pods")
		flavors[i].Arch = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "arch")
	}
	return flavors
}

func TestGreedyBuysWhatItsWordsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, flavors := drawPods(t), drawFlavors(t)
		order := rapid.SampledFrom([]Order{Services, Batch}).Draw(t, "order")
		want := twin(pods, flavors, order)
		pods, flavors = rapid.Permutation(pods).Draw(t, "shuffled pods"), rapid.Permutation(flavors).Draw(t, "shuffled flavors")
		plan := Greedy(pods, flavors, GreedyOptions{Order: order})
		var got []string
		for _, m := range plan.Machines {
			got = append(got, m.Flavor+": "+strings.Join(m.Pods, " "))
		}
		for _, u := range plan.Unplaceable {
			got = append(got, u.Pod+" -")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("plan (-words +got):\n%s", diff)
		}
		checkPlan(t, plan, pods, flavors)
	})
}

// checkPlan checks the invariants of every plan: each pod is placed or refused once and with a reason, no machine is
// over-filled, and the bill adds up.
func checkPlan(t rapid.TB, plan Plan, pods []Pod, flavors []Flavor) {
	t.Helper()
	seen, byName, price := map[string]int{}, map[string]Pod{}, int64(0)
	for _, p := range pods {
		byName[p.Name] = p
	}
	onMachine := map[string]string{}
	for _, a := range plan.Assignments {
		seen[a.Pod]++
		if !a.Waits {
			onMachine[a.Pod] = a.Machine
		}
	}
	for _, u := range plan.Unplaceable {
		seen[u.Pod]++
		if u.Reason == "" {
			t.Fatalf("%s is unplaceable without a reason", u.Pod)
		}
	}
	for _, p := range pods {
		if seen[p.Name] != 1 {
			t.Fatalf("%s is accounted for %d times", p.Name, seen[p.Name])
		}
	}
	for _, m := range plan.Machines {
		f := flavors[slices.IndexFunc(flavors, func(f Flavor) bool { return f.Name == m.Flavor })]
		var used packing.Size
		for _, name := range m.Pods {
			if onMachine[name] != m.Name {
				t.Fatalf("%s is on %q and listed under %s", name, onMachine[name], m.Name)
			}
			delete(onMachine, name)
			used.MilliCPU += byName[name].Size.MilliCPU
			used.MemoryBytes += byName[name].Size.MemoryBytes
		}
		if used != m.Used || used.MilliCPU > f.Size.MilliCPU || used.MemoryBytes > f.Size.MemoryBytes {
			t.Fatalf("%s holds %v, says %v and has %v", m.Name, used, m.Used, f.Size)
		}
		if len(m.Pods) == 0 || f.MaxPods != nil && len(m.Pods) > int(*f.MaxPods) {
			t.Fatalf("%s holds %d pods", m.Name, len(m.Pods))
		}
		price += f.MicroDollarsPerHour
	}
	if len(onMachine) > 0 || price != plan.MicroDollarsPerHour {
		t.Fatalf("pods on no machine: %v; price %d, want %d", onMachine, plan.MicroDollarsPerHour, price)
	}
}

// BenchmarkGreedy plans for pods of random sizes and of few sizes, with eight
// flavors up to 64 cores.
func BenchmarkGreedy(b *testing.B) {
	var flavors []Flavor
	for i := range int64(8) {
		f := flavor(fmt.Sprintf("f%d", i), 500<<i, 2<<30<<i, 34_000<<i-i*900)
		f.MaxPods = new(int64(110))
		flavors = append(flavors, f)
	}
	for _, n := range []int{1_000, 10_000} {
		for _, kinds := range []string{"random", "few"} {
			r := rand.New(rand.NewPCG(1, 1))
			pods := make([]Pod, n)
			for i := range pods {
				pods[i] = job(fmt.Sprint(i), 50+r.Int64N(2000), 1<<26+r.Int64N(8<<30), time.Duration(r.Int64N(int64(time.Hour))))
				if kinds == "few" {
					pods[i].Size = size(100*(1+r.Int64N(3)), 300<<20*(1+r.Int64N(3)))
				}
			}
			for order, name := range []string{"services", "batch"} {
				b.Run(fmt.Sprintf("pods=%d/sizes=%s/order=%s", n, kinds, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						Greedy(pods, flavors, GreedyOptions{Order: Order(order)})
					}
				})
			}
		}
	}
}
