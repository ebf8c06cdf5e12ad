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
)

const second = time.Second

// world runs a controller second by second. It carries out plans immediately; machines start after 30 s.
type world struct {
	t      interface{ Fatalf(string, ...any) }
	c      *Controller
	state  *cluster.State
	now    time.Duration
	bought int
	// schedules enables a scheduler that places pending pods, including evicted ones, as planned every second.
	schedules bool
	log       []string
}

func worldOf(t interface{ Fatalf(string, ...any) }, s Settings, nodes ...cluster.Node) *world {
	return &world{t: t, c: New(s), state: &cluster.State{Nodes: nodes, Flavors: flavors(), MaxNodes: 20}, schedules: true}
}

func (w *world) node(name string) *cluster.Node {
	at := slices.IndexFunc(w.state.Nodes, func(n cluster.Node) bool { return n.Name == name })
	if at < 0 {
		w.t.Fatalf("at %v there is no node %s", w.now, name)
	}
	return &w.state.Nodes[at]
}

// run runs until a time, and returns what happened since the last call.
func (w *world) run(until time.Duration) []string {
	w.log = nil
	for ; w.now < until; w.now += second {
		w.step()
	}
	return w.log
}

func (w *world) step() {
	for i := range w.state.Nodes {
		if n := &w.state.Nodes[i]; n.Phase == cluster.Ordered {
			if n.Due -= second; n.Due < 0 {
				n.Phase = cluster.Ready
			}
		}
	}
	if w.schedules {
		w.schedule()
	}
	w.act(w.c.Decide(start.Add(w.now), w.state))
	for i := range w.state.Pending {
		w.state.Pending[i].Waited += second
	}
}

func (w *world) schedule() {
	ready := slices.DeleteFunc(slices.Clone(w.state.Nodes), func(n cluster.Node) bool { return n.Phase != cluster.Ready })
	s := Solve(w.state.Pending, ready, nil, 0)
	w.state.Pending = slices.DeleteFunc(w.state.Pending, func(p cluster.Pod) bool {
		name, placed := s.Nodes[p.Name]
		if placed {
			n := w.node(name)
			p.Waited = 0
			n.Pods = append(slices.Clip(n.Pods), p)
			slices.SortFunc(n.Pods, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
		}
		return placed
	})
}

func (w *world) tell(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%ds ", int(w.now.Seconds()))+fmt.Sprintf(format, args...))
}

func (w *world) act(plan cluster.Plan) {
	for _, p := range plan.Buy {
		at := slices.IndexFunc(w.state.Flavors, func(f cluster.Flavor) bool { return f.Name == p.Flavor })
		n := nodeOf(fmt.Sprintf("new-%d", w.bought), w.state.Flavors[at], cluster.Ordered)
		n.Due = 30 * second
		w.bought++
		w.state.Nodes = append(w.state.Nodes, n)
		w.tell("buy %s for [%s]", p.Flavor, strings.Join(p.Pods, " "))
	}
	if len(w.state.Nodes) > w.state.MaxNodes {
		w.t.Fatalf("%d machines, want at most %d", len(w.state.Nodes), w.state.MaxNodes)
	}
	var gone []string
	for _, d := range plan.Drains {
		n := w.node(d.Node)
		if d.CordonOnly {
			w.tell("cordon %s", d.Node)
			n.Phase = cluster.Leaving
			continue
		}
		for _, p := range n.Pods {
			if p.Fixed {
				w.t.Fatalf("pod %s, which must stay, is evicted", p.Name)
			}
		}
		w.tell("evict %s", d.Node)
		w.state.Pending = append(w.state.Pending, n.Pods...)
		gone = append(gone, d.Node)
	}
	for _, r := range plan.Release {
		if len(w.node(r.Node).Pods) > 0 {
			w.t.Fatalf("node %s is released, which has pods", r.Node)
		}
		w.tell("release %s", r.Node)
		gone = append(gone, r.Node)
	}
	slices.SortFunc(w.state.Pending, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	w.state.Nodes = slices.DeleteFunc(w.state.Nodes, func(n cluster.Node) bool { return slices.Contains(gone, n.Name) })
}

func (w *world) want(until time.Duration, want ...string) {
	if h, is := w.t.(interface{ Helper() }); is {
		h.Helper()
	}
	if diff := gocmp.Diff(want, w.run(until)); diff != "" {
		w.t.Fatalf("until %v (-want +got):\n%s", until, diff)
	}
}

// full returns a node with one pod that leaves free milli-CPU.
func full(name string, f cluster.Flavor, free int64) cluster.Node {
	return nodeOf(name, f, cluster.Ready, podOf("full-"+name, f.Size.MilliCPU-free, 1))
}

func TestPodsThatWaitTogetherAreBoughtForTogether(t *testing.T) {
	w := worldOf(t, Defaults())
	w.want(5 * second)
	w.state.Pending = []cluster.Pod{podOf("a", 1000, 1), podOf("b", 1000, 1)}
	w.want(20*second, "6s buy m for [a b]")
	w.state.Pending = append(w.state.Pending, podOf("c", 100, 1))
	w.want(28*second, "21s buy s for [c]") // a and b fill the machine on order
	w.want(300 * second)
	if len(w.node("new-0").Pods) != 2 || len(w.node("new-1").Pods) != 1 {
		t.Errorf("nodes %+v", w.state.Nodes)
	}
}

func TestNoMoreMachinesAreBoughtThanAllowed(t *testing.T) {
	w := worldOf(t, Defaults())
	w.state.MaxNodes = 2
	for i := range 5 {
		w.state.Pending = append(w.state.Pending, podOf(fmt.Sprintf("p%d", i), 7000, 1))
	}
	w.want(100*second, "1s buy xl for [p0]", "1s buy xl for [p1]")
}

func TestEmptyNodesAreReleasedWithinTheBudget(t *testing.T) {
	m := flavors()[2]
	var nodes []cluster.Node
	for i := range 11 {
		nodes = append(nodes, nodeOf(fmt.Sprintf("n%02d", i), m, cluster.Ready))
	}
	w := worldOf(t, Defaults(), nodes...)
	// The budget is two of eleven nodes, and one of up to ten. Each decision is validated after 15 s.
	w.want(48*second, "15s release n00", "15s release n01", "31s release n02", "47s release n03")
}

func TestANodeThatIsUsedAgainStays(t *testing.T) {
	m := flavors()[2]
	w := worldOf(t, Defaults(), nodeOf("n", m, cluster.Ready))
	w.want(14 * second)
	w.node("n").Pods = []cluster.Pod{podOf("a", 2000, 1)}
	w.want(100 * second)
}

func TestANodeOnWhichAPodIsExpectedStays(t *testing.T) {
	m := flavors()[2]
	w := worldOf(t, Defaults(), nodeOf("n", m, cluster.Ready))
	w.schedules = false
	w.state.Pending = []cluster.Pod{podOf("a", 1000, 1)}
	w.want(100 * second)
	w.state.Pending = nil
	// The pod was last planned at 91 s, which nominates the node for 20 s. The next round is at 115 s; 15 s later its
	// decision is validated.
	w.want(200*second, "130s release n")
}

func TestPodsOfAnUnderUsedNodeAreEvictedIfTheyFitElsewhere(t *testing.T) {
	f := flavors()
	w := worldOf(t, Defaults(), full("n1", f[0], 600), nodeOf("n2", f[2], cluster.Ready, podOf("a", 500, 1)))
	w.want(100*second, "15s evict n2")
	if len(w.node("n1").Pods) != 2 {
		t.Errorf("nodes %+v", w.state.Nodes)
	}
}

func TestANodeIsReplacedByACheaperOneFirst(t *testing.T) {
	m := flavors()[2]
	w := worldOf(t, Defaults(), nodeOf("n", m, cluster.Ready, podOf("a", 500, 1)))
	w.want(45*second, "15s buy s for []", "15s cordon n")
	w.want(48*second, "46s evict n")
	w.want(200 * second) // no flavor is cheaper than the replacement
	if len(w.node("new-0").Pods) != 1 {
		t.Errorf("nodes %+v", w.state.Nodes)
	}
}

func TestNodesStay(t *testing.T) {
	f := flavors()
	m, s := f[2], f[3]
	small := podOf("a", 500, 1)
	stays := small
	stays.Fixed = true
	for _, tc := range []struct {
		name  string
		nodes []cluster.Node
		most  int
	}{
		{"a pod must not be disrupted", []cluster.Node{full("n1", f[0], 600), nodeOf("n2", m, cluster.Ready, stays)}, 20},
		{"nothing is cheaper", []cluster.Node{nodeOf("n1", s, cluster.Ready, small)}, 20},
		{"the pods do not fit on one machine", []cluster.Node{nodeOf("n1", flavorOf("gone", 16, 64, 999), cluster.Ready, podOf("b", 8000, 1), podOf("c", 8000, 1))}, 20},
		{"no machine may be bought", []cluster.Node{nodeOf("n1", m, cluster.Ready, small)}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := worldOf(t, Defaults(), tc.nodes...)
			w.state.MaxNodes = tc.most
			w.want(100 * second)
		})
	}
}

func TestNoPodIsEvictedForANodeThatIsNotReady(t *testing.T) {
	m := flavors()[2]
	ordered := nodeOf("n0", m, cluster.Ordered)
	ordered.Due = 60 * second
	s := flavorOf("s", 1, 4, 50)
	w := worldOf(t, Defaults(), ordered, nodeOf("n1", s, cluster.Ready, podOf("a", 500, 1)))
	// The pod does not move to the machine, which becomes ready, stays empty and is released.
	w.want(60 * second)
	w.want(100*second, "75s release n0")
}

func TestSeveralNodesAreReplacedByOneThatIsCheaper(t *testing.T) {
	f := flavors()
	l, m, small := f[1], f[2], f[3]
	half := func(name string, f cluster.Flavor) cluster.Node {
		return nodeOf(name, f, cluster.Ready, podOf("p-"+name, f.Size.MilliCPU/2, 1))
	}
	light := func(name string) cluster.Node { return nodeOf(name, l, cluster.Ready, podOf("p-"+name, 600, 1)) }
	several := Defaults()
	several.BudgetPercent = 100
	for _, tc := range []struct {
		name  string
		nodes []cluster.Node
		want  []string
	}{
		{"three by one", []cluster.Node{light("n1"), light("n2"), light("n3")},
			[]string{"15s buy m for []", "15s cordon n1", "15s cordon n2", "15s cordon n3", "46s evict n1", "46s evict n2", "46s evict n3"}},
		{"not by one of their own flavors: keeping that node is the same", []cluster.Node{half("n1", m), half("n2", m)},
			[]string{"15s evict n1"}},
		{"nor by one that costs as much as that", []cluster.Node{half("n1", l), half("n2", small)},
			[]string{"15s buy m for []", "15s cordon n1", "46s evict n1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := worldOf(t, several, tc.nodes...)
			w.want(300*second, tc.want...)
		})
	}
}

func TestNodesThatWaitForTheirReplacementCountAgainstTheBudget(t *testing.T) {
	dear := flavorOf("dear", 8, 32, 999)
	w := worldOf(t, Defaults(), nodeOf("n1", dear, cluster.Ready, podOf("a", 7000, 1)), nodeOf("n2", dear, cluster.Ready, podOf("b", 7000, 1)))
	w.want(60*second, "15s buy xl for []", "15s cordon n1", "46s evict n1")
	w.want(300*second, "71s buy xl for []", "71s cordon n2", "102s evict n2")
}

// The nodes with the highest price per disruption are removed first.
func TestTheBudgetGoesToTheNodesThatSaveMost(t *testing.T) {
	f := flavors()
	l, m := f[1], f[2]
	nodes := []cluster.Node{
		full("n0", f[0], 2000),
		nodeOf("n1", m, cluster.Ready, podOf("a", 100, 1)),
		nodeOf("n2", l, cluster.Ready, podOf("b", 100, 1), podOf("c", 100, 1)),
		nodeOf("n3", l, cluster.Ready, podOf("d", 100, 1), podOf("e", 100, 1), podOf("f", 100, 1)),
	}
	w := worldOf(t, Defaults(), nodes...)
	w.want(16*second, "15s evict n2") // 200/3 is more than 100/2 and 200/4; the pod of n0 (360/2) fits nowhere else
}

func TestConsolidateAfterWaitsForQuiet(t *testing.T) {
	f := flavors()
	s := Defaults()
	s.ConsolidateAfter = 60 * second
	w := worldOf(t, s, full("n1", f[0], 600), nodeOf("n2", f[2], cluster.Ready, podOf("a", 250, 1), podOf("b", 250, 1)))
	w.want(30 * second)
	w.node("n2").Pods = w.node("n2").Pods[:1]
	w.want(200*second, "105s evict n2") // 30 + 60 + 15
}

// TestConsolidationEndsAndNeverRaisesThePrice runs clusters without new or ending pods. Pods are bound as planned.
func TestConsolidationEndsAndNeverRaisesThePrice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyCluster(t)
		settings := Defaults()
		settings.BudgetPercent = rapid.SampledFrom([]int{10, 50, 100}).Draw(t, "budget")
		w := worldOf(t, settings)
		w.state = s
		pods := 0
		for i := range s.Nodes {
			pods += len(s.Nodes[i].Pods)
		}
		price := func() (sum int64) {
			for i := range w.state.Nodes {
				if w.state.Nodes[i].Phase != cluster.Leaving {
					sum += w.state.Nodes[i].MicroDollarsPerHour
				}
			}
			return sum
		}
		last, quiet := price(), 0
		for quiet < 60 {
			before := len(w.log)
			w.step()
			w.now += second
			if now := price(); now > last {
				t.Fatalf("at %v the machines cost %d after %d: %v", w.now, now, last, w.log)
			} else {
				last = now
			}
			if quiet++; len(w.log) > before {
				quiet = 0
			}
			if w.now > 3*time.Hour {
				t.Fatalf("it has not ended: %v", w.log)
			}
		}
		there := 0
		for i := range w.state.Nodes {
			if len(w.state.Nodes[i].Pods) == 0 {
				t.Fatalf("node %s is left, which is empty: %v", w.state.Nodes[i].Name, w.log)
			}
			there += len(w.state.Nodes[i].Pods)
		}
		if there != pods || len(w.state.Pending) > 0 {
			t.Fatalf("%d of %d pods run, and %d wait: %v", there, pods, len(w.state.Pending), w.log)
		}
	})
}

// TestDecidingTwiceAtATimeDoesNothingMore repeats each decision.
func TestDecidingTwiceAtATimeDoesNothingMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worldOf(t, Defaults())
		w.state = anyCluster(t)
		w.state.Pending = anyPending(t)
		for range 60 {
			w.step()
			if again := w.c.Decide(start.Add(w.now), w.state); len(again.Buy)+len(again.Drains)+len(again.Release) > 0 {
				t.Fatalf("at %v it decides %+v after %v", w.now, again, w.log)
			}
			w.now += second
		}
	})
}
