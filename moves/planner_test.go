package moves

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func size(milliCPU, memoryBytes int64) packing.Size {
	return packing.Size{MilliCPU: milliCPU, MemoryBytes: memoryBytes}
}

// job returns a batch pod with a remaining runtime of an hour.
func job(name string, milliCPU, memoryBytes int64) cluster.Pod {
	return lasting(cluster.Pod{Item: packing.Item{Name: name, Size: size(milliCPU, memoryBytes)}, Class: class.Batch}, time.Hour)
}

func service(name string, milliCPU, memoryBytes int64) cluster.Pod {
	return cluster.Pod{Item: packing.Item{Name: name, Size: size(milliCPU, memoryBytes)}, Class: class.Service}
}

func lasting(p cluster.Pod, runtime time.Duration) cluster.Pod { p.Runtime = runtime; return p }
func ran(p cluster.Pod, work time.Duration) cluster.Pod        { p.Ran = work; return p }
func fixed(p cluster.Pod) cluster.Pod                          { p.Fixed = true; return p }
func needing(p cluster.Pod, arch string) cluster.Pod           { p.Arch = arch; return p }

// node returns a ready machine of 10 by 10 for all pods that costs a dollar a minute.
func node(name string, pods ...cluster.Pod) cluster.Node {
	return cluster.Node{
		Name: name, Flavor: "medium", Class: class.Any, Capacity: size(10, 10), Arch: "amd64", Phase: cluster.Ready,
		MicroDollarsPerHour: 60_000_000, Age: 10 * time.Minute, Pods: pods,
	}
}

func with(n cluster.Node, change func(*cluster.Node)) cluster.Node { change(&n); return n }

func of(n cluster.Node, c class.Class) cluster.Node { n.Class = c; return n }

// state returns a cluster billed by the minute. A migration takes 30 s.
func state(nodes ...cluster.Node) *cluster.State {
	return &cluster.State{
		Nodes: nodes, MaxNodes: 100, BillingPeriod: time.Minute, QueueEmpty: time.Hour,
		Migration: cluster.Migration{Fixed: 30 * time.Second},
	}
}

// lines formats a plan as "drain NODE: POD>TARGET ...", "drain NODE: FLAVOR for PODS" and "release NODE".
func lines(p cluster.Plan) []string {
	all := []string{}
	for _, d := range p.Drains {
		line := "drain " + d.Node + ":"
		for _, m := range d.Moves {
			line += " " + m.Pod + ">" + m.Target
		}
		if d.Replacement != nil {
			line += " " + d.Replacement.Flavor + " for " + strings.Join(d.Replacement.Pods, " ")
		}
		all = append(all, line)
	}
	for _, r := range p.Release {
		all = append(all, "release "+r.Node)
	}
	return all
}

// underHalf drains nodes that are used to less than a half, at once.
var underHalf = DrainConfig{Threshold: 0.5}

func TestWhichNodesAreEmptiedAndWhereTheirPodsGo(t *testing.T) {
	services := DrainConfig{Threshold: 0.5, MoveServices: true}
	bins := DrainConfig{Threshold: 0.5, Cycle: 5 * time.Minute}
	few := func(n int64) func(*cluster.Node) { return func(node *cluster.Node) { node.MaxPods = new(n) } }
	wide := func(cpu, memory int64) func(*cluster.Node) {
		return func(node *cluster.Node) { node.Capacity = size(cpu, memory) }
	}
	tests := []struct {
		name   string
		config DrainConfig
		nodes  []cluster.Node
		want   []string
	}{
		{"no nodes, no moves", underHalf, nil, []string{}},
		{"a pod goes where it leaves least", underHalf,
			[]cluster.Node{node("a", job("p", 1, 1)), node("b", job("q", 6, 6)), node("c", job("r", 7, 7))},
			[]string{"drain a: p>c"}},
		{"all or nothing: one pod finds room, the other does not", underHalf,
			[]cluster.Node{node("a", job("p", 2, 2), job("q", 2, 2)), node("b", job("r", 7, 7))},
			[]string{}},
		{"the pods of a node may go to several", underHalf,
			[]cluster.Node{node("a", job("p", 2, 2), job("q", 2, 2)), node("b", job("r", 8, 8)), node("c", job("s", 7, 7))},
			[]string{"drain a: p>b q>c"}},
		{"an exact fit fits", underHalf,
			[]cluster.Node{node("a", job("p", 2, 2)), node("b", job("r", 8, 8))},
			[]string{"drain a: p>b"}},
		{"memory alone rules a target out", underHalf,
			[]cluster.Node{node("a", job("p", 1, 3)), node("b", job("r", 5, 8))},
			[]string{}},
		{"CPU alone rules a target out", underHalf,
			[]cluster.Node{node("a", job("p", 3, 1)), node("b", job("r", 8, 5))},
			[]string{}},
		{"a target has only so many places for pods", underHalf,
			[]cluster.Node{node("a", job("p", 1, 1), job("q", 1, 1)), with(node("b", job("r", 5, 5)), few(2)), with(node("c", job("s", 5, 5)), few(2))},
			[]string{"drain a: p>b q>c"}},
		{"a target whose places are taken is none", underHalf,
			[]cluster.Node{node("a", job("p", 1, 1)), with(node("b", job("r", 5, 5)), few(1))},
			[]string{}},
		{"the worst utilised first, whatever its name", underHalf,
			[]cluster.Node{node("a", job("p", 2, 2)), node("b", job("q", 1, 1)), node("c", job("r", 8, 8))},
			[]string{"drain b: q>c"}},
		{"equally bad: by name", underHalf,
			[]cluster.Node{node("a", job("p", 2, 2)), node("b", job("q", 2, 2)), node("c", job("r", 8, 8))},
			[]string{"drain a: p>c"}},
		{"a node that is being emptied is no target", underHalf,
			[]cluster.Node{node("a", job("p", 1, 1)), node("b", job("q", 2, 2)), node("c", job("r", 9, 9))},
			[]string{"drain a: p>c"}},
		{"a target is not emptied, even if it could be", underHalf,
			[]cluster.Node{node("a", job("p", 1, 1)), with(node("b", job("q", 1, 1)), wide(4, 4)), node("c", job("r", 5, 5))},
			[]string{"drain a: p>b"}},
		{"several nodes go in one round", underHalf,
			[]cluster.Node{node("a", job("p", 1, 1)), node("b", job("q", 2, 2)), node("c", job("r", 5, 5)), node("d", job("s", 9, 9))},
			[]string{"drain a: p>d", "drain b: q>c"}},
		{"what one node's pods take the next cannot have", underHalf,
			[]cluster.Node{node("a", job("p", 2, 2)), node("b", job("q", 2, 2)), node("c", job("r", 7, 7))},
			[]string{"drain a: p>c"}},
		{"a failed plan takes nothing", underHalf,
			[]cluster.Node{node("a", lasting(job("p", 1, 1), 2*time.Hour), job("q", 0, 3)), with(node("b", job("r", 3, 3)), few(1)), node("c", job("s", 7, 7))},
			[]string{"drain b: r>c"}},
		{"an empty node is released", underHalf,
			[]cluster.Node{node("a"), node("b", job("p", 8, 8))},
			[]string{"release a"}},
		{"an empty node is no target", underHalf,
			[]cluster.Node{node("a"), node("b", job("p", 1, 1))},
			[]string{"release a"}},
		{"a pod that must not be moved keeps its node", underHalf,
			[]cluster.Node{node("a", job("p", 1, 1), fixed(job("q", 1, 1))), node("b", job("r", 6, 6))},
			[]string{}},
		{"services stay", underHalf,
			[]cluster.Node{node("a", service("p", 1, 1)), node("b", job("r", 6, 6))},
			[]string{}},
		{"and keep the batch pods beside them", underHalf,
			[]cluster.Node{node("a", job("o", 1, 1), service("p", 1, 1)), node("b", job("r", 6, 6))},
			[]string{}},
		{"unless they may be moved", services,
			[]cluster.Node{node("a", service("p", 1, 1)), node("b", job("r", 6, 6))},
			[]string{"drain a: p>b"}},
		{"not even then if they are fixed", services,
			[]cluster.Node{node("a", fixed(service("p", 1, 1))), node("b", job("r", 6, 6))},
			[]string{}},
		{"services choose before batch pods", services,
			[]cluster.Node{node("a", job("p", 1, 1), service("q", 1, 1)), node("b", job("r", 9, 9)), node("c", job("s", 8, 8))},
			[]string{"drain a: p>c q>b"}},
		{"of services the largest chooses first", services,
			[]cluster.Node{node("a", service("p", 1, 1), service("q", 1, 2)), node("b", job("r", 8, 8)), node("c", job("s", 7, 7))},
			[]string{"drain a: p>c q>b"}},
		{"of batch pods the longest", underHalf,
			[]cluster.Node{node("a", job("p", 1, 1), lasting(job("q", 1, 1), 2*time.Hour)), node("b", job("r", 9, 9)), node("c", job("s", 8, 8))},
			[]string{"drain a: p>c q>b"}},
		{"a batch pod goes to the node that ends when it does", bins,
			[]cluster.Node{
				node("a", lasting(job("p", 1, 1), 6*time.Minute)), node("b", lasting(job("q", 8, 8), 2*time.Minute)),
				node("c", lasting(job("r", 6, 6), 9*time.Minute)), node("d", lasting(job("s", 7, 7), time.Hour)),
			},
			[]string{"drain a: p>c"}},
		{"a pod that goes there makes a node end later for the next", bins, // b now ends when q does, long before c
			[]cluster.Node{
				node("a", lasting(job("p", 2, 2), 14*time.Minute), lasting(job("q", 1, 1), 13*time.Minute)),
				node("b", lasting(job("r", 6, 6), 9*time.Minute)), node("c", lasting(job("s", 9, 9), 20*time.Minute)),
			},
			[]string{"drain a: p>b q>b"}},
		{"the time that the move takes counts too", bins, // on b, p ends in 10 min 20 s, and q does so in 9 min 40 s
			[]cluster.Node{
				node("a", lasting(job("p", 1, 1), 9*time.Minute+50*time.Second)), node("b", lasting(job("r", 7, 7), 9*time.Minute)),
				node("c", lasting(job("s", 6, 6), 9*time.Minute)), with(node("d", lasting(job("q", 1, 1), 9*time.Minute+40*time.Second)), wide(9, 9)),
			},
			[]string{"drain a: p>b", "drain d: q>c"}},
		{"an evicted pod starts again, so its work so far counts", DrainConfig{Threshold: 0.5, Cycle: 5 * time.Minute, Method: cluster.Evict},
			[]cluster.Node{
				node("a", ran(lasting(job("p", 1, 1), 9*time.Minute), time.Minute)), node("b", lasting(job("r", 7, 7), 9*time.Minute)),
				node("c", lasting(job("s", 6, 6), 9*time.Minute)), with(node("d", ran(lasting(job("q", 1, 1), 9*time.Minute), time.Second)), wide(9, 9)),
			},
			[]string{"drain a: p>b", "drain d: q>c"}},
		{"a service goes to the tightest anyway", DrainConfig{Threshold: 0.5, Cycle: 5 * time.Minute, MoveServices: true},
			[]cluster.Node{node("a", service("p", 1, 1)), node("b", lasting(job("q", 8, 8), time.Hour)), node("c", lasting(job("r", 6, 6), time.Minute))},
			[]string{"drain a: p>b"}},
		{"pods stay among machines of their class", underHalf,
			[]cluster.Node{of(node("a", job("p", 1, 1)), class.Batch), of(node("b", service("q", 8, 8)), class.Service), of(node("c", job("r", 5, 5)), class.Batch)},
			[]string{"drain a: p>c"}},
		{"and of their architecture", DrainConfig{Threshold: 0.5, Method: cluster.Evict},
			[]cluster.Node{
				node("a", needing(job("p", 1, 1), "amd64"), job("q", 1, 1)), with(node("b", job("r", 8, 8)), func(n *cluster.Node) { n.Arch = "arm64" }),
				node("c", job("s", 5, 5)),
			},
			[]string{"drain a: p>c q>b"}},
		{"the state of a pod stays on the architecture where it is", underHalf,
			[]cluster.Node{
				node("a", needing(job("p", 1, 1), "amd64"), job("q", 1, 1)), with(node("b", job("r", 8, 8)), func(n *cluster.Node) { n.Arch = "arm64" }),
				node("c", job("s", 5, 5)),
			},
			[]string{"drain a: p>c q>c"}},
		{"what is ordered or being emptied is neither emptied nor a target", underHalf,
			[]cluster.Node{
				node("a", job("p", 1, 1)), with(node("b", job("q", 8, 8)), func(n *cluster.Node) { n.Phase = cluster.Leaving }),
				with(node("c", job("r", 1, 1)), func(n *cluster.Node) { n.Phase = cluster.Leaving }),
				with(node("d", job("s", 8, 8)), func(n *cluster.Node) { n.Phase = cluster.Ordered }),
				with(node("e"), func(n *cluster.Node) { n.Phase = cluster.Ordered }),
			},
			[]string{}},
		{"a node to which pods are moving is a target and is not emptied", underHalf,
			[]cluster.Node{node("a", job("p", 2, 2)), with(node("b", job("q", 1, 1)), func(n *cluster.Node) { n.Incoming = 1 })},
			[]string{"drain a: p>b"}},
		{"as many nodes as allowed", DrainConfig{Threshold: 0.5, Limit: 1},
			[]cluster.Node{node("a", job("p", 1, 1)), node("b", job("q", 1, 1)), node("c", job("r", 6, 6)), node("d"), node("e")},
			[]string{"drain a: p>c", "release d", "release e"}},
		{"a node that cannot be emptied does not count for the limit", DrainConfig{Threshold: 0.5, Limit: 1},
			[]cluster.Node{node("a", fixed(job("p", 1, 1))), node("b", job("q", 1, 1)), node("c", job("r", 6, 6))},
			[]string{"drain b: q>c"}},
		{"exactly on the threshold is not under-used", DrainConfig{Threshold: 0.25},
			[]cluster.Node{with(node("a", job("p", 5, 5)), wide(20, 20)), node("b", job("r", 3, 3))},
			[]string{}},
		{"a threshold of nothing still releases what is empty", DrainConfig{},
			[]cluster.Node{node("a"), node("b", job("p", 0, 0))},
			[]string{"release a"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(NewPlanner(tc.config).Plan(noon, state(tc.nodes...)))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUtilizationIsTheMeanOrTheGreaterShare(t *testing.T) {
	bare := with(node("a", job("p", 3, 8)), func(n *cluster.Node) { n.Capacity.MemoryBytes = 0 })
	gpus := func(n int16) cluster.Node {
		p := job("p", 8, 2)
		p.Size.Extended = p.Size.Extended.With(1, n)
		return with(node("a", p), func(n *cluster.Node) {
			n.Capacity.Extended, n.GPUs = packing.Amounts(0, 2), extended.GPUs{Any: true, Amounts: packing.Amounts(0, 2)}
		})
	}
	tests := []struct {
		name           string
		node           cluster.Node
		mean, dominant float64
	}{
		{"an empty node", node("a"), 0, 0},
		{"more memory than CPU", node("a", job("p", 2, 4), service("q", 0, 2)), 0.4, 0.6},
		{"more CPU than memory", node("a", job("p", 8, 2)), 0.5, 0.8},
		{"what a node does not have counts nothing", bare, 0.15, 0.3},
		{"more promised than there is", node("a", job("p", 15, 5)), 1, 1.5},
		{"half of the GPUs", gpus(1), 0.5, 0.5},
		{"none of the GPUs, whatever else", gpus(0), 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := []float64{DrainConfig{Measure: Mean}.Utilization(&tc.node), DrainConfig{Measure: Dominant}.Utilization(&tc.node)}
			if diff := cmp.Diff([]float64{tc.mean, tc.dominant}, got); diff != "" {
				t.Errorf("mean and dominant share (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheMeasureDecidesWhoIsUnderUsed(t *testing.T) {
	s := state(node("a", job("p", 1, 6)), node("b", job("q", 4, 4)))
	for measure, want := range map[Measure]string{Mean: "drain a: p>b", Dominant: "drain b: q>a"} {
		got := strings.Join(lines(NewPlanner(DrainConfig{Threshold: 0.5, Measure: measure}).Plan(noon, s)), "; ")
		if got != want {
			t.Errorf("measure %d: %q, want %q", measure, got, want)
		}
	}
}

func TestReplacementIsTheCheapestFlavorThatIsCheaper(t *testing.T) {
	flavor := func(name string, cpu, memory, dollars int64) cluster.Flavor {
		return cluster.Flavor{Name: name, Size: size(cpu, memory), Arch: "amd64", MicroDollarsPerHour: dollars * 1_000_000}
	}
	arm := func(f cluster.Flavor) cluster.Flavor { f.Arch = "arm64"; return f }
	few := func(f cluster.Flavor, n int64) cluster.Flavor { f.MaxPods = new(n); return f }
	two := []cluster.Pod{job("p", 2, 1), job("q", 1, 2)}
	tests := []struct {
		name    string
		flavors []cluster.Flavor
		nodes   []cluster.Node
		want    []string
	}{
		{"the cheapest that holds all pods", []cluster.Flavor{flavor("large", 9, 9, 50), flavor("small", 3, 3, 30), flavor("tiny", 2, 2, 10)},
			[]cluster.Node{node("a", two...)}, []string{"drain a: small for p q"}},
		{"an equal price is not cheaper", []cluster.Flavor{flavor("other", 9, 9, 60)}, []cluster.Node{node("a", two...)}, []string{}},
		{"equally cheap: by name", []cluster.Flavor{flavor("x", 5, 5, 30), flavor("y", 4, 4, 30)}, []cluster.Node{node("a", two...)}, []string{"drain a: x for p q"}},
		{"CPU alone rules a flavor out", []cluster.Flavor{flavor("small", 2, 3, 30)}, []cluster.Node{node("a", two...)}, []string{}},
		{"memory alone", []cluster.Flavor{flavor("small", 3, 2, 30)}, []cluster.Node{node("a", two...)}, []string{}},
		{"it takes as many pods", []cluster.Flavor{few(flavor("one", 9, 9, 10), 1), few(flavor("two", 9, 9, 20), 2)},
			[]cluster.Node{node("a", two...)}, []string{"drain a: two for p q"}},
		{"it is of the same architecture, since the state is moved", []cluster.Flavor{arm(flavor("arm", 9, 9, 1)), flavor("small", 3, 3, 30)},
			[]cluster.Node{node("a", two...)}, []string{"drain a: small for p q"}},
		{"room on another node comes first", []cluster.Flavor{flavor("small", 3, 3, 1)},
			[]cluster.Node{node("a", two...), node("b", job("r", 5, 5))}, []string{"drain a: p>b q>b"}},
		{"what does not fit the other nodes is replaced whole", []cluster.Flavor{flavor("small", 3, 3, 1)},
			[]cluster.Node{node("a", two...), node("b", job("r", 8, 8))}, []string{"drain a: small for p q"}},
		{"a node that is replaced is no target", []cluster.Flavor{flavor("small", 3, 3, 1)},
			[]cluster.Node{node("a", job("o", 3, 3)), with(node("b", job("p", 4, 4)), func(n *cluster.Node) { n.MaxPods = new(int64(1)) })},
			[]string{"drain a: small for o"}},
		{"services stay", []cluster.Flavor{flavor("small", 3, 3, 1)}, []cluster.Node{node("a", service("p", 1, 1))}, []string{}},
		{"what is fixed stays", []cluster.Flavor{flavor("small", 3, 3, 1)}, []cluster.Node{node("a", fixed(job("p", 1, 1)))}, []string{}},
		{"an empty node is not replaced", []cluster.Flavor{flavor("small", 3, 3, 1)}, []cluster.Node{node("a")}, []string{"release a"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := state(tc.nodes...)
			s.Flavors = tc.flavors
			if diff := cmp.Diff(tc.want, lines(NewPlanner(DrainConfig{Threshold: 0.5, Replace: true}).Plan(noon, s))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			for _, d := range NewPlanner(underHalf).Plan(noon, s).Drains {
				if d.Replacement != nil {
					t.Errorf("%s is replaced although that is not allowed", d.Node)
				}
			}
		})
	}
}

func TestAReplacementIsBoughtForTheClassOfTheNode(t *testing.T) {
	s := state(of(node("a", job("p", 1, 1)), class.Batch))
	s.Flavors = []cluster.Flavor{{Name: "small", Size: size(2, 2), Arch: "amd64", MicroDollarsPerHour: 1}}
	want := &cluster.Purchase{Flavor: "small", Class: class.Batch, Pods: []string{"p"}, Reason: "replaces a"}
	got := NewPlanner(DrainConfig{Threshold: 0.5, Replace: true}).Plan(noon, s).Drains[0]
	if diff := cmp.Diff(want, got.Replacement); diff != "" || len(got.Moves) > 0 {
		t.Errorf("moves %v, replacement (-want +got):\n%s", got.Moves, diff)
	}
}

func TestReplacementsStayWithinTheLimitOfMachines(t *testing.T) {
	s := state(node("a", job("p", 4, 4)), node("b", job("q", 4, 4)), node("c", job("r", 4, 4)))
	for i := range s.Nodes {
		s.Nodes[i].MaxPods = new(int64(1))
	}
	s.Flavors = []cluster.Flavor{{Name: "small", Size: size(4, 4), Arch: "amd64", MicroDollarsPerHour: 1}}
	for limit, want := range map[int]int{2: 0, 3: 0, 4: 1, 5: 2, 6: 3, 7: 3} {
		s.MaxNodes = limit
		if got := len(NewPlanner(DrainConfig{Threshold: 0.5, Replace: true}).Plan(noon, s).Drains); got != want {
			t.Errorf("of 3 machines, %d are replaced where %d are allowed, want %d", got, limit, want)
		}
	}
}

func TestEvictionsAreSaidToBeSo(t *testing.T) {
	s := state(node("a", job("p", 1, 1)), node("b", job("r", 6, 6)))
	for _, method := range []cluster.Method{cluster.Migrate, cluster.Evict} {
		if got := NewPlanner(DrainConfig{Threshold: 0.5, Method: method}).Plan(noon, s).Drains[0].Method; got != method {
			t.Errorf("method %d, want %d", got, method)
		}
	}
}

func TestReasonsSayWhatAPersonWantsToKnow(t *testing.T) {
	s := state(node("a", job("p", 1, 2), job("q", 1, 1)), node("b", job("r", 5, 5)), node("c"))
	plan := NewPlanner(DrainConfig{Threshold: 0.5, Worthwhile: true}).Plan(noon, s)
	got := []string{plan.Drains[0].Reason, plan.Release[0].Reason}
	want := []string{"25% utilised, and its 2 pods fit on other nodes; saves $59.000000 for $1.000000", "it is empty"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	s = state(node("a", job("p", 1, 2)), node("b", job("r", 5, 5)))
	if got, want := NewPlanner(DrainConfig{Threshold: 0.5}).Plan(noon, s).Drains[0].Reason, "15% utilised, and its only pod fits on another node"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
	s = state(node("a", job("p", 1, 2)))
	s.Flavors = []cluster.Flavor{{Name: "small", Size: size(4, 4), Arch: "amd64"}}
	if got, want := NewPlanner(DrainConfig{Threshold: 0.5, Replace: true}).Plan(noon, s).Drains[0].Reason, "15% utilised, and small holds its pod for less"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}
