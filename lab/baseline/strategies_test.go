package baseline

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/test/fixtures/states"
)

const minute = time.Minute

// What the tests build clusters of.
var (
	size, job, service           = states.Size, states.Job, states.Service
	node, of, due, state, cloned = states.Node, states.Of, states.Due, states.State, states.Clone
	small                        = states.Small
)

func needing(p cluster.Pod, arch string) cluster.Pod { p.Arch = arch; return p }

func podsOf(all ...cluster.Pod) []cluster.Pod { return all }

// bought formats purchases as "FLAVOR CLASS: PODS".
func bought(purchases []cluster.Purchase) []string {
	all := []string{}
	for _, p := range purchases {
		all = append(all, p.Flavor+" "+string(p.Class)+": "+strings.Join(p.Pods, ", "))
	}
	return all
}

func changed(s *cluster.State, change func(*cluster.State)) *cluster.State { change(s); return s }

func between(s *cluster.State) *cluster.State {
	return changed(s, func(s *cluster.State) { s.Scaling = false })
}

func upTo(s *cluster.State, machines int) *cluster.State {
	return changed(s, func(s *cluster.State) { s.MaxNodes = machines })
}

func selling(s *cluster.State, flavors ...cluster.Flavor) *cluster.State {
	return changed(s, func(s *cluster.State) { s.Flavors = flavors })
}

type strategyCase struct {
	name string
	s    *cluster.State
	want []string
}

func checkStrategy(t *testing.T, strategy func(*cluster.State) []cluster.Purchase, tests []strategyCase) {
	t.Helper()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, bought(strategy(tc.s))); diff != "" {
				t.Errorf("purchases (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHomogeneousBuysOneMachineARound(t *testing.T) {
	p, q := job("p", 6, minute), service("q", 6)
	onOrder := due(minute, node("a"))
	few := onOrder
	few.MaxPods = new(int64(1))
	checkStrategy(t, func(s *cluster.State) []cluster.Purchase { return Homogeneous(s, "large") }, []strategyCase{
		{"nothing waits", state(nil), []string{}},
		{"one waits", state(podsOf(p)), []string{"large any: p"}},
		{"one machine, however many wait", state(podsOf(p, q)), []string{"large any: p"}},
		{"nothing between rounds", between(state(podsOf(p))), []string{}},
		{"nothing beyond the limit", upTo(state(podsOf(p), node("a")), 1), []string{}},
		{"nothing where there are more than the limit", upTo(state(podsOf(p), node("a"), node("b")), 1), []string{}},
		{"machines on order count for the limit", upTo(state(podsOf(job("p", 11, 1), q), onOrder), 1), []string{}},
		{"up to the limit", upTo(state(podsOf(p), node("a")), 2), []string{"large any: p"}},
		{"nothing where the flavor is not sold", selling(state(podsOf(p)), small), []string{}},
		{"a pod that fits no such machine buys none", state(podsOf(job("p", 11, minute))), []string{}},
		{"but another may", state(podsOf(job("p", 11, minute), q)), []string{"large any: q"}},
		{"an exact fit fits", state(podsOf(job("p", 10, minute))), []string{"large any: p"}},
		{"nor does a pod of another architecture", state(podsOf(needing(p, "arm64"))), []string{}},
		{"one of the same does", state(podsOf(needing(p, "amd64"))), []string{"large any: p"}},
		{"a machine on order holds the pod", state(podsOf(p), onOrder), []string{}},
		{"and no two that are too large together", state(podsOf(p, job("r", 5, time.Hour)), onOrder), []string{"large any: p"}},
		{"a machine on order for another class does not hold it", state(podsOf(q), of(class.Batch, onOrder)), []string{"large any: q"}},
		{"nor one of another architecture", state(podsOf(needing(p, "arm64"), q), onOrder), []string{}},
		{"nor one with no place for another pod", state(podsOf(job("p", 1, minute), job("r", 1, 2*minute)), few), []string{"large any: p"}},
		{"room on a machine that is ready is not checked: the scheduler did", state(podsOf(p), node("a")), []string{"large any: p"}},
	})
}

func TestHomogeneousSaysForHowMany(t *testing.T) {
	got := Homogeneous(state(podsOf(job("p", 1, minute), job("q", 1, minute))), "large")[0].Reason
	if want := "2 pods were unschedulable; one machine is bought in each round"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}

func TestPodsChooseAmongMachinesOnOrderInTheirOrderAndTightestFirst(t *testing.T) {
	narrow, wide := due(minute, node("b")), due(minute, node("a"))
	narrow.Capacity = size(4, 4)
	lessCPU := narrow
	lessCPU.Name, lessCPU.Capacity = "c", size(3, 4)
	memory := func(name string, cpu, memory int64) cluster.Pod {
		p := job(name, 0, minute)
		p.Size = size(cpu, memory)
		return p
	}
	tests := []struct {
		name   string
		orders []cluster.Node
		pods   []cluster.Pod
		rest   []string
	}{
		{"the tightest holds the small one, the wide one the large", []cluster.Node{wide, narrow}, podsOf(job("p", 4, 2*minute), job("q", 10, minute)), nil},
		{"of equal memory, that with less CPU", []cluster.Node{narrow, lessCPU}, podsOf(memory("p", 1, 4), memory("q", 4, 4)), []string{}},
		{"CPU alone rules a machine out", []cluster.Node{lessCPU}, podsOf(memory("p", 4, 1)), []string{"p"}},
		{"memory alone does", []cluster.Node{lessCPU}, podsOf(memory("p", 1, 5)), []string{"p"}},
		{"the longer job first", []cluster.Node{narrow}, podsOf(job("p", 3, minute), job("q", 3, 2*minute)), []string{"p"}},
		{"services before jobs", []cluster.Node{narrow}, podsOf(job("p", 3, time.Hour), service("q", 3)), []string{"p"}},
		{"what one takes the next cannot have", []cluster.Node{narrow}, podsOf(job("p", 2, 3*minute), job("q", 2, 2*minute), job("r", 1, minute)), []string{"r"}},
		{"a machine that is ready or being emptied is not on order", []cluster.Node{node("a"), {Name: "b", Class: class.Any, Capacity: size(9, 9), Phase: cluster.Leaving}},
			podsOf(job("p", 1, minute)), []string{"p"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var rest []string
			for _, p := range unserved(state(nil, tc.orders...), tc.pods) {
				rest = append(rest, p.Name)
			}
			if !slices.Equal(rest, tc.rest) {
				t.Errorf("%q need a machine, want %q", rest, tc.rest)
			}
		})
	}
}

func TestGroupsBuysApartForServicesAndJobs(t *testing.T) {
	p, q := job("p", 4, minute), service("q", 4)
	batch := func(name string, pods ...cluster.Pod) cluster.Node { return of(class.Batch, node(name, pods...)) }
	checkStrategy(t, Groups, []strategyCase{
		{"nothing waits", state(nil), []string{}},
		{"a machine for each class", state(podsOf(p, q)), []string{"small service: q", "small batch: p"}},
		{"nothing between rounds", between(state(podsOf(p, q))), []string{}},
		{"services first where there may be one more", upTo(state(podsOf(p, q)), 1), []string{"small service: q"}},
		{"nothing beyond the limit", upTo(state(podsOf(p, q), node("a")), 1), []string{}},
		{"several of a group", state(podsOf(job("o", 9, minute), p)), []string{"large batch: o", "small batch: p"}},
		{"the best score for each", state(podsOf(job("o", 5, minute), p, service("r", 5), q)), []string{"large service: r, q", "large batch: o, p"}},
		{"the largest service first", state(podsOf(service("r", 2), service("s", 7), service("t", 9))), []string{"large service: t", "large service: s, r"}},
		{"the longest job first", state(podsOf(job("o", 2, 9*minute), job("r", 7, minute), job("s", 9, 5*minute))), []string{"large batch: o, r", "large batch: s"}},
		{"a machine of the first bin comes free for a job", state(podsOf(p), batch("a", job("x", 10, 5*minute-1))), []string{}},
		{"an empty one, too", state(podsOf(p), batch("a")), []string{}},
		{"but for no more than it holds", state(podsOf(job("o", 8, 2*minute), p), batch("a", job("x", 10, minute))), []string{"small batch: p"}},
		{"one of the next bin does not", state(podsOf(p), batch("a", job("x", 10, 5*minute))), []string{"small batch: p"}},
		{"it takes no services", state(podsOf(q), batch("a", job("x", 10, minute))), []string{"small service: q"}},
		{"machines of services are none", state(podsOf(p), of(class.Service, node("a"))), []string{"small batch: p"}},
		{"nor is one that has a service", state(podsOf(p), node("a", service("x", 1), job("y", 1, minute))), []string{"small batch: p"}},
		{"nor one that is being emptied", state(podsOf(p), changedNode(batch("a"), func(n *cluster.Node) { n.Phase = cluster.Leaving })), []string{"small batch: p"}},
		{"nor one of another architecture", state(podsOf(needing(p, "amd64")), changedNode(batch("a"), func(n *cluster.Node) { n.Arch = "arm64" })), []string{"small batch: p"}},
		{"a machine of one pod holds one", state(podsOf(job("o", 4, 2*minute), p), changedNode(batch("a"), func(n *cluster.Node) { n.MaxPods = new(int64(1)) })), []string{"small batch: p"}},
		{"a machine on order holds the pods of its class", state(podsOf(p, q), due(minute, batch("a"))), []string{"small service: q"}},
		{"and is not taken for an empty one on top", state(podsOf(job("o", 8, 2*minute), p), due(minute, batch("a"))), []string{"small batch: p"}},
		{"machines on order count for the limit", upTo(state(podsOf(p, q), due(minute, batch("a"))), 1), []string{}},
		{"a pod that fits no flavor buys nothing", state(podsOf(job("o", 11, minute), service("r", 11))), []string{}},
		{"no flavors", selling(state(podsOf(p, q))), []string{}},
	})
}

func changedNode(n cluster.Node, change func(*cluster.Node)) cluster.Node { change(&n); return n }

func TestMixedBuysForAllTogether(t *testing.T) {
	p, q := job("p", 5, minute), service("q", 5)
	checkStrategy(t, Mixed, []strategyCase{
		{"nothing waits", state(nil), []string{}},
		{"one machine for both classes", state(podsOf(p, q)), []string{"large any: p, q"}},
		{"nothing between rounds", between(state(podsOf(p, q))), []string{}},
		{"nothing beyond the limit", upTo(state(podsOf(p), node("a")), 1), []string{}},
		{"up to the limit", upTo(state(podsOf(p, q, job("r", 9, minute)), node("a")), 2), []string{"large any: r"}},
		{"nothing for what a machine on order holds", state(podsOf(p, q), due(minute, node("a"))), []string{}},
		{"a pod that fits no flavor buys nothing", state(podsOf(job("o", 11, minute))), []string{}},
		{"no flavors", selling(state(podsOf(p))), []string{}},
	})
}

var strategies = map[string]func(*cluster.State) []cluster.Purchase{
	"homogeneous": func(s *cluster.State) []cluster.Purchase { return Homogeneous(s, "large") },
	"groups":      Groups, "mixed": Mixed,
}

// TestWhatEveryStrategyKeepsTo checks properties for any cluster: no machine beyond the limit or
// between rounds, each for pods that fit it, no pod twice, and the same answer for the same
// cluster, which is not modified.
func TestWhatEveryStrategyKeepsTo(t *testing.T) {
	for name, strategy := range strategies {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := states.Draw(t, false)
				before := cloned(s)
				got := strategy(s)
				if diff := cmp.Diff(before, s); diff != "" {
					t.Fatalf("the cluster was modified:\n%s", diff)
				}
				if diff := cmp.Diff(got, strategy(before)); diff != "" {
					t.Fatalf("asked again it says otherwise:\n%s", diff)
				}
				if len(got) > 0 && len(s.Nodes)+len(got) > s.MaxNodes {
					t.Fatalf("%d machines are bought beside %d, %d may be there", len(got), len(s.Nodes), s.MaxNodes)
				}
				if between := strategy(between(before)); len(between) > 0 {
					t.Fatalf("between rounds it buys %q", bought(between))
				}
				for _, p := range got {
					checkPurchase(t, s, p)
				}
			})
		})
	}
}

// TestWhatIsOnOrderForLikePodsIsNotBoughtAgain uses identical pods, so that they fit the machines
// on order in any order.
func TestWhatIsOnOrderForLikePodsIsNotBoughtAgain(t *testing.T) {
	for name, strategy := range strategies {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				amount, number := rapid.Int64Range(1, 10).Draw(t, "amount"), rapid.IntRange(1, 12).Draw(t, "number")
				s := state(nil)
				for i := range number {
					s.Pending = append(s.Pending, job(strings.Repeat("p", i+1), amount, 10*minute))
				}
				machines := 0
				for range number {
					for _, p := range strategy(s) {
						order(s, p)
						machines++
					}
				}
				held := int64(0)
				for _, n := range s.Nodes {
					held += n.Capacity.MilliCPU / amount
				}
				if held < int64(number) || name != "homogeneous" && len(strategies[name](state(s.Pending))) != machines {
					t.Fatalf("%d machines in the end, which hold %d pods of %d", machines, held, number)
				}
			})
		})
	}
}

// checkPurchase checks a machine against the pods it is bought for.
func checkPurchase(t *rapid.T, s *cluster.State, p cluster.Purchase) {
	t.Helper()
	f := s.Flavors[slices.IndexFunc(s.Flavors, func(f cluster.Flavor) bool { return f.Name == p.Flavor })]
	n := cluster.Node{Capacity: f.Size, Class: p.Class, Arch: f.Arch}
	for _, name := range p.Pods {
		pod := s.Pending[slices.IndexFunc(s.Pending, func(pod cluster.Pod) bool { return pod.Name == name })]
		if !n.Suits(&pod) {
			t.Fatalf("pod %s does not run on a machine of %q", name, bought([]cluster.Purchase{p}))
		}
		n.Pods = append(n.Pods, pod)
	}
	if free := n.Free(); len(n.Pods) == 0 || p.Reason == "" || free.MilliCPU < 0 || free.MemoryBytes < 0 || f.MaxPods != nil && int64(len(n.Pods)) > *f.MaxPods {
		t.Fatalf("%q for %q leaves %+v free", bought([]cluster.Purchase{p}), p.Reason, free)
	}
}

// order puts a machine on order, with a name after the existing machines, as the scheduler would
// see it.
func order(s *cluster.State, p cluster.Purchase) {
	f := s.Flavors[slices.IndexFunc(s.Flavors, func(f cluster.Flavor) bool { return f.Name == p.Flavor })]
	s.Nodes = append(s.Nodes, cluster.Node{
		Name: "o" + strings.Repeat("o", len(s.Nodes)), Flavor: f.Name, Class: p.Class, Capacity: f.Size, MaxPods: f.MaxPods, Arch: f.Arch,
		MicroDollarsPerHour: f.MicroDollarsPerHour, Phase: cluster.Ordered, Due: s.Lag,
	})
}
