package moves

import (
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
)

// whyNot formats the reasons of a plan for nodes that stay.
func whyNot(p cluster.Plan) []string {
	all := []string{}
	for _, k := range p.Kept {
		all = append(all, k.Node+": "+k.Reason)
	}
	return all
}

func held(p cluster.Pod, why string) cluster.Pod { p.Held = why; return p }

func TestAPersonIsToldWhyAnUnderUsedNodeStays(t *testing.T) {
	d := newDemands()
	explained := DrainConfig{Threshold: 0.5, Explain: true}
	cheap := func(n cluster.Node) cluster.Node { n.MicroDollarsPerHour = 600_000; return n }
	waiting := func(s *cluster.State) *cluster.State {
		s.Pending, s.QueueEmpty = []cluster.Pod{job("w", 99, 99)}, 0
		return s
	}
	tests := []struct {
		name   string
		config DrainConfig
		s      *cluster.State
		want   []string
	}{
		{"a node that goes needs no reason", explained, state(node("a", job("p", 1, 1)), node("b", job("q", 8, 8))), []string{}},
		{"nor one that is used enough", explained, state(node("a", job("p", 5, 5)), node("b", job("q", 8, 8))), []string{}},
		{"a pod that must stay", explained, state(node("a", job("o", 1, 1), fixed(job("ns/p", 1, 1)))), []string{"a: pod ns/p must not be moved"}},
		{"a pod that must stay, and why", explained,
			state(node("a", job("o", 1, 1), held(fixed(job("ns/p", 1, 1)), "it requests nvidia.com/gpu"))), []string{"a: pod ns/p must not be moved: it requests nvidia.com/gpu"}},
		{"a pod that is waited for, and why", explained,
			state(node("a", held(byWays(job("ns/p", 1, 1), cluster.Wait), "it says never"))), []string{"a: pod ns/p can only leave by ending: it says never"}},
		{"a node that is kept, and why", explained,
			state(with(node("a"), func(n *cluster.Node) { n.Kept, n.KeptFor = true, "pod ns/q needs it" })), []string{"a: pod ns/q needs it"}},
		{"a service", explained, state(node("a", job("o", 1, 1), service("ns/p", 1, 1))), []string{"a: pod ns/p belongs to a service, and services are not moved"}},
		{"no room for some", explained,
			state(node("a", job("ns/p", 1, 1), job("ns/q", 2, 2), lasting(job("ns/r", 1, 2), 2*time.Hour)), node("b", job("s", 9, 8)), node("c", job("t", 10, 9))),
			[]string{"a: 2 of its 3 pods fit on no other node once the others have moved: of the nodes open to ns/p, 2 without room"}},
		{"nothing else there", explained, state(node("a", job("ns/p", 1, 1))), []string{"a: its pod fits on no other node"}},
		{"different reasons on different nodes", explained,
			state(located(node("a", d.on(job("ns/p", 1, 1), "p", inZone("x"), apartFrom("q", hostname))), "x"), located(node("b", job("r", 7, 7)), "y"),
				located(node("c", d.on(job("s", 7, 7), "q")), "x"), located(node("d", job("t", 10, 10)), "x")),
			[]string{"a: its pod fits on no other node: of the nodes open to ns/p, 1 without room, 1 unsuitable, 1 ruled out by pod anti-affinity on kubernetes.io/hostname"}},
		{"it costs more than it saves", DrainConfig{Threshold: 0.5, Worthwhile: true, Explain: true},
			state(cheap(node("a", lasting(job("p", 1, 1), 2*time.Minute))), cheap(node("b", fixed(lasting(job("q", 8, 8), 0))))),
			[]string{"a: would save $0.01 for $0.03"}},
		{"digits enough to tell", DrainConfig{Threshold: 0.5, Worthwhile: true, Explain: true},
			state(with(node("a", lasting(job("p", 1, 1), 2*time.Minute)), func(n *cluster.Node) { n.MicroDollarsPerHour = 119_000 }),
				with(node("b", fixed(lasting(job("q", 8, 8), time.Minute))), func(n *cluster.Node) { n.MicroDollarsPerHour = 60_000 })),
			[]string{"a: would save $0.00198 for $0.00200"}},
		{"the budget", DrainConfig{Threshold: 0.5, Limit: 1, Explain: true},
			state(node("a", job("p", 1, 1)), node("b", job("q", 1, 1)), node("c", job("r", 7, 7))), []string{"b: the limit of 1 machine is reached"}},
		{"a target", explained, state(node("a", job("p", 1, 1)), sized(node("b", job("q", 1, 1)), 4, 4)), []string{"b: it receives pods of other nodes"}},
		{"not for long", DrainConfig{Threshold: 0.5, After: 10 * time.Minute, Explain: true}, state(node("a", job("p", 1, 1)), node("b", job("q", 8, 8))),
			[]string{"a: under-used for 0s, less than the required 10m0s"}},
		{"pods wait", DrainConfig{Threshold: 0.5, AnyPending: true, Explain: true}, waiting(state(node("a", job("p", 1, 1)), node("b", job("q", 8, 8)))),
			[]string{"a: pods are pending, or were until recently"}},
		{"it is kept", explained, state(with(node("a", job("p", 1, 1)), keep), node("b", job("q", 8, 8))), []string{"a: it must be kept"}},
		{"pods are coming", explained, state(with(node("a", job("p", 1, 1)), func(n *cluster.Node) { n.Incoming = 1 }), node("b", job("q", 8, 8))),
			[]string{"a: 1 pod is moving to it"}},
		{"a node that is not ready needs none", explained, state(with(node("a", job("p", 1, 1)), func(n *cluster.Node) { n.Phase = cluster.Leaving })), []string{}},
		{"the worst first", explained, state(node("a", fixed(job("p", 2, 2))), node("b", fixed(job("q", 1, 1))), node("c", fixed(job("r", 2, 2)))),
			[]string{"b: pod q must not be moved", "a: pod p must not be moved", "c: pod r must not be moved"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, whyNot(NewPlanner(tc.config).Plan(noon, tc.s))); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			tc.config.Explain = false
			if got := NewPlanner(tc.config).Plan(noon, tc.s).Kept; got != nil {
				t.Errorf("nobody asked, and is told %v", got)
			}
		})
	}
}

func TestNoMoreNodesAreExplainedThanAPersonReads(t *testing.T) {
	s := state()
	for i := range 2 * mostKept {
		s.Nodes = append(s.Nodes, node(fmt.Sprintf("n%03d", i), fixed(job(fmt.Sprintf("p%03d", i), 1, 1))))
	}
	kept := NewPlanner(DrainConfig{Threshold: 0.5, Explain: true}).Plan(noon, s).Kept
	if len(kept) != mostKept || kept[0].Node != "n000" || kept[mostKept-1].Node != fmt.Sprintf("n%03d", mostKept-1) {
		t.Errorf("%d nodes are explained, want the first %d", len(kept), mostKept)
	}
}

// TestReasonsChangeNothing compares with a planner that gives no reasons, and checks that every under-used node has a
// reason.
func TestReasonsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config, s := drawConfig(t), drawState(t)
		config.Worthwhile = rapid.Bool().Draw(t, "worthwhile")
		config.Explain = false
		want := NewPlanner(config).Plan(noon, s)
		config.Explain = true
		got := NewPlanner(config).Plan(noon, s)
		kept := map[string]bool{}
		for _, k := range got.Kept {
			if kept[k.Node] || k.Reason == "" {
				t.Fatalf("%s is there twice or without a reason: %v", k.Node, got.Kept)
			}
			kept[k.Node] = true
		}
		goes := map[string]bool{}
		for _, d := range got.Drains {
			goes[d.Node] = true
		}
		for _, r := range got.Release {
			goes[r.Node] = true
		}
		for i := range s.Nodes {
			n := &s.Nodes[i]
			low := n.Phase == cluster.Ready && (len(n.Pods) == 0 || config.Utilization(n) < config.Threshold)
			if kept[n.Name] != (low && !goes[n.Name]) {
				t.Fatalf("%s: under-used %t, goes %t, explained %t", n.Name, low, goes[n.Name], kept[n.Name])
			}
		}
		for i := range got.Drains {
			for j := range got.Drains[i].Moves {
				got.Drains[i].Moves[j].Reason = ""
			}
		}
		if got.Kept = nil; gocmp.Diff(want, got) != "" {
			t.Fatalf("the plan is another one:\n%s", gocmp.Diff(want, got))
		}
	})
}
