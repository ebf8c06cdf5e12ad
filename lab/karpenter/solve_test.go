package karpenter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

const gib = int64(1) << 30

func flavorOf(name string, cpu, memory, price int64) cluster.Flavor {
	return cluster.Flavor{
		Name: name, Size: packing.Size{MilliCPU: cpu * 1000, MemoryBytes: memory * gib}, MaxPods: new(int64(110)), Arch: "amd64",
		MicroDollarsPerHour: price * 1000,
	}
}

// flavors returns flavors that cost the same per CPU, except the largest, which is cheaper.
func flavors() []cluster.Flavor {
	return []cluster.Flavor{flavorOf("xl", 8, 32, 360), flavorOf("l", 4, 16, 200), flavorOf("m", 2, 8, 100), flavorOf("s", 1, 4, 50)}
}

func podOf(name string, milliCPU, memory int64) cluster.Pod {
	return cluster.Pod{Item: packing.Item{Name: name, Size: packing.Size{MilliCPU: milliCPU, MemoryBytes: memory * gib}}, Class: class.Service}
}

func nodeOf(name string, f cluster.Flavor, phase cluster.Phase, pods ...cluster.Pod) cluster.Node {
	return cluster.Node{
		Name: name, Flavor: f.Name, Class: class.Any, Capacity: f.Size, MaxPods: f.MaxPods, Arch: f.Arch,
		MicroDollarsPerHour: f.MicroDollarsPerHour, Phase: phase, Pods: pods,
	}
}

// told formats a solution.
func told(s Solution) string {
	var all []string
	for pod, node := range s.Nodes {
		all = append(all, pod+" on "+node)
	}
	slices.Sort(all)
	var claims []string
	for _, c := range s.Claims {
		var names []string
		for _, p := range c.Pods {
			names = append(names, p.Name)
		}
		claims = append(claims, "new "+c.Flavors[0].Name+" for "+strings.Join(names, " "))
	}
	slices.Sort(claims)
	all = append(all, claims...)
	if len(s.Unplaced) > 0 {
		all = append(all, "nowhere "+strings.Join(s.Unplaced, " "))
	}
	return strings.Join(all, "; ")
}

func TestPodsAreFirstFitDecreasing(t *testing.T) {
	f := flavors()
	l, m := f[1], f[2]
	arm := flavorOf("arm", 2, 8, 60)
	arm.Arch = "arm64"
	tiny := flavorOf("tiny", 4, 16, 10)
	tiny.MaxPods = new(int64(2))
	needs := func(arch string, p cluster.Pod) cluster.Pod { p.Arch = arch; return p }
	for _, tc := range []struct {
		name    string
		pods    []cluster.Pod
		nodes   []cluster.Node
		flavors []cluster.Flavor
		most    int
		want    string
	}{
		{"one pod, the cheapest flavor that holds it", []cluster.Pod{podOf("a", 1500, 1)}, nil, f, 9, "new m for a"},
		{"pods share a machine as long as a flavor holds all", []cluster.Pod{podOf("a", 3000, 1), podOf("b", 3000, 1), podOf("c", 3000, 1)}, nil, f, 9,
			"new l for c; new xl for a b"},
		{"CPU decides before memory", []cluster.Pod{podOf("a", 1000, 8), podOf("b", 2000, 1)}, []cluster.Node{nodeOf("n", m, cluster.Ready)}, f, 9,
			"b on n; new m for a"},
		{"memory decides among equal CPU", []cluster.Pod{podOf("a", 1000, 1), podOf("b", 1000, 8)}, []cluster.Node{nodeOf("n", m, cluster.Ready)}, f, 9,
			"b on n; new s for a"},
		{"ready nodes first, then those on order, each by name", []cluster.Pod{podOf("a", 2000, 1), podOf("b", 1900, 1), podOf("c", 1800, 1)},
			[]cluster.Node{nodeOf("n1", m, cluster.Ordered), nodeOf("n2", m, cluster.Ready), nodeOf("n3", m, cluster.Ready)}, f, 9,
			"a on n2; b on n3; c on n1"},
		{"no pod goes to a node that is being removed or sleeps", []cluster.Pod{podOf("a", 100, 1)},
			[]cluster.Node{nodeOf("n1", m, cluster.Leaving), nodeOf("n2", m, cluster.Asleep)}, f, 9, "new s for a"},
		{"a node takes what its pods leave", []cluster.Pod{podOf("a", 1000, 1)}, []cluster.Node{nodeOf("n", m, cluster.Ready, podOf("x", 1001, 1))}, f, 9, "new s for a"},
		{"among machines to launch, the one with the fewest pods comes first",
			[]cluster.Pod{podOf("a", 5000, 1), podOf("b", 4000, 1), podOf("c", 3000, 1), podOf("d", 900, 1), podOf("e", 100, 1)}, nil, f, 9,
			"new xl for a c; new xl for b d e"},
		{"architectures narrow the flavors", []cluster.Pod{podOf("a", 1000, 1), needs("amd64", podOf("b", 900, 1)), needs("arm64", podOf("c", 800, 1))}, nil,
			append(flavors(), arm), 9, "new arm for c; new m for a b"},
		{"a flavor takes so many pods", []cluster.Pod{podOf("a", 100, 1), podOf("b", 100, 1), podOf("c", 100, 1)}, nil, []cluster.Flavor{tiny}, 9, "new tiny for a b; new tiny for c"},
		{"a node takes so many pods", []cluster.Pod{podOf("a", 100, 1), podOf("b", 100, 1)}, []cluster.Node{nodeOf("n", tiny, cluster.Ready, podOf("x", 100, 1))}, f, 9, "a on n; new s for b"},
		{"no more machines than allowed", []cluster.Pod{podOf("a", 8000, 1), podOf("b", 7000, 1), podOf("c", 100, 40)}, nil, f, 1, "new xl for a; nowhere b c"},
		{"the same price: by name", []cluster.Pod{podOf("a", 3000, 1)}, nil, []cluster.Flavor{l, flavorOf("k", 4, 16, 200)}, 9, "new k for a"},
		{"no pods, no machines", nil, []cluster.Node{nodeOf("n", m, cluster.Ready)}, f, 9, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := told(Solve(tc.pods, tc.nodes, tc.flavors, tc.most)); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

var (
	anyPod = rapid.Custom(func(t *rapid.T) cluster.Pod {
		p := podOf("", 100*rapid.Int64Range(0, 40).Draw(t, "cpu"), rapid.Int64Range(0, 12).Draw(t, "memory"))
		p.Arch = rapid.SampledFrom([]string{"", "", "", "amd64", "arm64"}).Draw(t, "arch")
		return p
	})
	anyFlavor = rapid.Custom(func(t *rapid.T) cluster.Flavor {
		f := flavorOf("", rapid.Int64Range(1, 8).Draw(t, "cpu"), rapid.Int64Range(1, 32).Draw(t, "memory"), rapid.Int64Range(0, 400).Draw(t, "price"))
		f.Arch = rapid.SampledFrom([]string{"amd64", "amd64", "arm64"}).Draw(t, "arch")
		f.MaxPods = new(rapid.Int64Range(1, 6).Draw(t, "max pods"))
		return f
	})
)

// anyCluster draws a cluster of ready nodes on which pods fit.
func anyCluster(t *rapid.T) *cluster.State {
	s := &cluster.State{MaxNodes: 20}
	for i, f := range rapid.SliceOfN(anyFlavor, 1, 5).Draw(t, "flavors") {
		f.Name = fmt.Sprintf("f%d", i)
		s.Flavors = append(s.Flavors, f)
	}
	pods := 0
	for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
		n := nodeOf(fmt.Sprintf("n%02d", i), rapid.SampledFrom(s.Flavors).Draw(t, "flavor"), cluster.Ready)
		for _, p := range rapid.SliceOfN(anyPod, 0, 4).Draw(t, "pods") {
			p.Name = fmt.Sprintf("p%03d", pods)
			if n.HasRoom(&p) {
				n.Pods = append(n.Pods, p)
				pods++
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func anyPending(t *rapid.T) []cluster.Pod {
	pods := rapid.SliceOfN(anyPod, 0, 20).Draw(t, "pending")
	for i := range pods {
		pods[i].Name = fmt.Sprintf("q%03d", i)
	}
	return pods
}

// TestNothingIsOverCommittedAndNothingBoughtThatNoPodNeeds checks a plan pod by pod.
func TestNothingIsOverCommittedAndNothingBoughtThatNoPodNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, pending, most := anyCluster(t), anyPending(t), rapid.IntRange(0, 6).Draw(t, "most")
		got := Solve(pending, s.Nodes, s.Flavors, most)
		placed := map[string]int{}
		byPod := map[string]cluster.Pod{}
		for _, p := range pending {
			byPod[p.Name] = p
		}
		nodes := slices.Clone(s.Nodes)
		for pod, name := range got.Nodes {
			placed[pod]++
			at := slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.Name == name })
			p := byPod[pod]
			if !nodes[at].HasRoom(&p) {
				t.Fatalf("%s is over-committed by %s", name, pod)
			}
			nodes[at].Pods = append(slices.Clip(nodes[at].Pods), p)
		}
		for _, c := range got.Claims {
			if len(c.Pods) == 0 || !slices.IsSortedFunc(c.Flavors, func(a, b *cluster.Flavor) int { return cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour) }) {
				t.Fatalf("claim of %d pods, flavors %v", len(c.Pods), c.Flavors)
			}
			for _, f := range c.Flavors {
				n := nodeOf("new", *f, cluster.Ready)
				for _, p := range c.Pods {
					if !n.HasRoom(&p) {
						t.Fatalf("flavor %s does not hold %s", f.Name, p.Name)
					}
					n.Pods = append(n.Pods, p)
				}
			}
			for _, p := range c.Pods {
				placed[p.Name]++
				if slices.ContainsFunc(nodes, func(n cluster.Node) bool { return n.HasRoom(&p) }) {
					t.Fatalf("a machine is bought for %s, which fits on a node", p.Name)
				}
			}
		}
		for _, name := range got.Unplaced {
			placed[name]++
			p := byPod[name]
			fits := slices.ContainsFunc(s.Flavors, func(f cluster.Flavor) bool { n := nodeOf("", f, cluster.Ready); return n.HasRoom(&p) })
			if fits && len(got.Claims) < most {
				t.Fatalf("%s is not placed, though a machine could be bought", name)
			}
		}
		for _, p := range pending {
			if placed[p.Name] != 1 {
				t.Fatalf("%s is planned %d times", p.Name, placed[p.Name])
			}
		}
		if len(got.Claims) > most {
			t.Fatalf("%d machines, want at most %d", len(got.Claims), most)
		}
		slices.Reverse(pending)
		if diff := gocmp.Diff(told(got), told(Solve(pending, s.Nodes, s.Flavors, most))); diff != "" {
			t.Fatalf("the order of the arguments matters:\n%s", diff)
		}
	})
}

var start = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func TestTheWindowClosesWhenNoPodCameForAWhile(t *testing.T) {
	at := func(milliseconds ...int) []time.Duration {
		var all []time.Duration
		for _, ms := range milliseconds {
			all = append(all, time.Duration(ms)*time.Millisecond)
		}
		return all
	}
	var steady []int
	for ms := 500; ms <= 20_000; ms += 500 {
		steady = append(steady, ms)
	}
	for _, tc := range []struct {
		name     string
		arrivals []time.Duration
		want     []time.Duration // up to 25 s
	}{
		{"nobody", nil, nil},
		{"one pod, and again while it waits", at(2000), at(3000, 13000, 23000)},
		{"two within a second", at(2000, 2900), at(4000, 14000, 24000)},
		{"pods without a gap: after ten seconds", at(steady...), at(11000, 21000)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := window{idle: time.Second, most: 10 * time.Second, again: 10 * time.Second}
			var closed []time.Duration
			for at := time.Duration(0); at <= 25*time.Second; at += time.Second {
				var pending []cluster.Pod
				for i, since := range tc.arrivals {
					if since <= at {
						p := podOf(fmt.Sprint(i), 1, 1)
						p.Waited = at - since
						pending = append(pending, p)
					}
				}
				closes, wait := w.observe(start.Add(at), pending)
				if closes {
					closed = append(closed, at)
				}
				if (wait > 0) != (len(pending) > 0) || wait > 10*time.Second {
					t.Fatalf("at %v with %d pods, the next look is in %v", at, len(pending), wait)
				}
			}
			if diff := gocmp.Diff(tc.want, closed); diff != "" {
				t.Errorf("closed (-want +got):\n%s", diff)
			}
		})
	}
}
