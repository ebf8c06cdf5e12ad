package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
)

// watched is a cluster that has been watched for as long as a forecast looks ahead.
func watched(pending []cluster.Pod, nodes ...cluster.Node) *cluster.State {
	return came(state(pending, nodes...))
}

// lastLook is a node whose next billing minute begins before the next look.
func lastLook(n cluster.Node) cluster.Node { n.Age = 50 * time.Second; return n }

func costing(n cluster.Node, price int64) cluster.Node { n.MicroDollarsPerHour = price; return n }

func released(all []cluster.Release) []string {
	names := []string{}
	for _, r := range all {
		names = append(names, r.Node)
	}
	return names
}

func TestIdleMachinesThatWillNotBeMissedGo(t *testing.T) {
	empty := func(name string) cluster.Node { return lastLook(node(name)) }
	p, r := job("p", 10, time.Hour), ago(job("r", 10, 2*time.Hour), minute)
	drain := cluster.Drain{Node: "b", Moves: []cluster.Move{{Pod: "x", Target: "c"}}}
	x := lastLook(node("b", job("x", 4, time.Hour)))
	tests := []struct {
		name   string
		s      *cluster.State
		drains []cluster.Drain
		want   []string
	}{
		{"an empty machine", watched(nil, empty("a")), nil, []string{"a"}},
		{"no machine", watched(nil), nil, []string{}},
		{"not one with a pod", watched(nil, lastLook(node("a", job("x", 1, minute)))), nil, []string{}},
		{"not one with a service", watched(nil, lastLook(node("a", service("x", 1)))), nil, []string{}},
		{"not one on order", watched(nil, lastLook(due(minute, node("a")))), nil, []string{}},
		{"not one that is leaving already", watched(nil, lastLook(changedNode(node("a"), func(n *cluster.Node) { n.Phase = cluster.Leaving }))), nil, []string{}},
		{"not one that is paid for some time yet", watched(nil, node("a")), nil, []string{}},
		{"nobody before arrivals were watched for long enough", observed(watched(nil, empty("a")), 7*minute-1), nil, []string{}},
		{"between rounds of buying, too", between(watched(nil, empty("a"))), nil, []string{"a"}},
		{"not one that a waiting pod can have", watched(podsOf(p), empty("a")), nil, []string{}},
		{"but another beside it", watched(podsOf(p), empty("a"), empty("b")), nil, []string{"a"}},
		{"not one for a pod that is expected", came(state(nil, empty("a")), r), nil, []string{}},
		{"all that are not needed for those expected", came(state(nil, empty("a"), empty("b"), empty("c"), empty("d"), empty("e")), r), nil, []string{"a"}},
		{"pods that find no room in any case keep none", watched(podsOf(job("p", 11, minute)), empty("a")), nil, []string{"a"}},
		{"room that comes free in time is as good", watched(podsOf(p), empty("a"), full("b", 6*minute)), nil, []string{"a"}},
		{"room that does not is not", watched(podsOf(p), empty("a"), full("b", 8*minute)), nil, []string{}},
		{"a machine on order is as good", watched(podsOf(p), empty("a"), due(minute, node("b"))), nil, []string{"a"}},
		{"the dearest first", watched(podsOf(p), costing(empty("a"), 10), costing(empty("b"), 30), costing(empty("c"), 20)), nil, []string{"b", "c"}},
		{"of the same price by name", watched(podsOf(p), costing(empty("a"), 10), costing(empty("b"), 10), costing(empty("c"), 20)), nil, []string{"c", "a"}},
		{"a machine that is emptied takes nobody", watched(podsOf(job("p", 6, time.Hour)), empty("a"), x, node("c", job("y", 6, time.Hour))), []cluster.Drain{drain}, []string{}},
		{"without that it would", watched(podsOf(job("p", 6, time.Hour)), empty("a"), x, node("c", job("y", 6, time.Hour))), nil, []string{"a"}},
		{"its pods take room elsewhere", watched(podsOf(job("p", 4, time.Hour)), empty("a"), x, node("c", job("y", 6, time.Hour))), []cluster.Drain{drain}, []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := cloned(tc.s)
			if diff := cmp.Diff(tc.want, released(Idle(tc.s, tc.drains))); diff != "" {
				t.Errorf("machines that go (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.s); diff != "" {
				t.Errorf("the cluster was modified:\n%s", diff)
			}
		})
	}
	if got, want := Idle(watched(nil, empty("a")), nil)[0].Reason, "it is empty, and the work expected within 7m0s finds room without it"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}

// TestAMachineIsGivenBackAtTheLastLookBeforeItsNextBillingPeriod has looks every 20 s.
func TestAMachineIsGivenBackAtTheLastLookBeforeItsNextBillingPeriod(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name            string
		period, release time.Duration
		goes, stays     []time.Duration // ages
	}{
		{"by the minute", minute, 0,
			[]time.Duration{40*s + 1, 50 * s, 60 * s, 100*s + 1, 120 * s}, []time.Duration{0, 20 * s, 40 * s, 60*s + 1, 100 * s}},
		{"the release is paid too", minute, 5 * s,
			[]time.Duration{35*s + 1, 55 * s, 95*s + 1, 115 * s}, []time.Duration{0, 35 * s, 55*s + 1, 95 * s}},
		{"a release of more than a minute", minute, 65 * s,
			[]time.Duration{35*s + 1, 55 * s}, []time.Duration{0, 35 * s, 55*s + 1}},
		{"by the hour", time.Hour, 0,
			[]time.Duration{3580*s + 1, 3600 * s, 7200 * s}, []time.Duration{0, 40*s + 1, 3580 * s, 3600*s + 1}},
		{"no more than a look long", 20 * s, 0, []time.Duration{1, s, 20 * s}, []time.Duration{0}},
		{"by the second", s, 0, []time.Duration{0, 1, s}, nil},
		{"to the moment", 0, 0, []time.Duration{0, 1, s}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			given := func(age time.Duration) bool {
				s := watched(nil, node("a"))
				s.BillingPeriod, s.Release, s.Nodes[0].Age = tc.period, tc.release, age
				return len(Idle(s, nil)) == 1
			}
			for _, age := range tc.goes {
				if !given(age) {
					t.Errorf("at %v it stays", age)
				}
			}
			for _, age := range tc.stays {
				if given(age) {
					t.Errorf("at %v it goes", age)
				}
			}
		})
	}
}

// TestNoLookIsLaterThanTheBillAllows compares the bill of a machine given back as Idle says with
// that of each other look from its birth on.
func TestNoLookIsLaterThanTheBillAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := watched(nil, node("a"))
		s.BillingPeriod = time.Duration(rapid.IntRange(0, 200).Draw(t, "period")) * time.Second
		s.Release = time.Duration(rapid.IntRange(0, 200).Draw(t, "release")) * time.Second
		age := time.Duration(rapid.IntRange(0, 500).Draw(t, "age")) * time.Second
		s.Nodes[0].Age = age
		now, next := cluster.Bill(3600e6, age+s.Release, s.BillingPeriod), cluster.Bill(3600e6, age+s.SchedulingInterval+s.Release, s.BillingPeriod)
		if goes := len(Idle(s, nil)) == 1; goes != (now < next) {
			t.Fatalf("given back: %t; it costs %d now and %d at the next look", goes, now, next)
		}
	})
}

func drainsOf(all []cluster.Drain) []string {
	names := []string{}
	for _, d := range all {
		names = append(names, d.Node)
	}
	return names
}

func TestADrainAfterWhichMoreWouldWaitIsRefused(t *testing.T) {
	drain := func(name, pod, target string) cluster.Drain {
		return cluster.Drain{Node: name, Moves: []cluster.Move{{Pod: pod, Target: target}}}
	}
	one := func(name string) cluster.Node { return node(name, job("on-"+name, 2, time.Hour)) }
	a, b := drain("a", "on-a", "c"), drain("b", "on-b", "c")
	tests := []struct {
		name   string
		s      *cluster.State
		drains []cluster.Drain
		want   []string
	}{
		{"nothing to empty", watched(nil, one("a")), nil, []string{}},
		{"nobody waits", watched(nil, one("a"), one("b"), one("c")), []cluster.Drain{a, b}, []string{"a", "b"}},
		{"nothing before arrivals were watched for long enough", observed(watched(nil, one("a"), one("c")), 7*minute-1), []cluster.Drain{a}, []string{}},
		{"a waiting pod needs the node", watched(podsOf(job("p", 8, time.Hour)), one("a"), full("c", time.Hour)), []cluster.Drain{a}, []string{}},
		{"a waiting pod needs the target", watched(podsOf(needing(job("p", 8, time.Hour), "amd64")),
			changedNode(one("a"), func(n *cluster.Node) { n.Arch = "arm64" }), one("c")), []cluster.Drain{a}, []string{}},
		{"it finds room elsewhere", watched(podsOf(job("p", 8, time.Hour)), one("a"), one("b"), one("c")), []cluster.Drain{a}, []string{"a"}},
		{"the first may go, not both", watched(podsOf(job("p", 8, time.Hour)), one("a"), one("b"), one("c")), []cluster.Drain{a, b}, []string{"a"}},
		{"it finds room nowhere in any case", watched(podsOf(job("p", 9, time.Hour)), one("a"), one("c")), []cluster.Drain{a}, []string{"a"}},
		{"a pod that is expected needs the node", came(state(nil, one("a"), full("c", time.Hour)), ago(job("r", 8, 100*time.Second), minute)), []cluster.Drain{a}, []string{}},
		{"it is not expected", watched(nil, one("a"), full("c", time.Hour)), []cluster.Drain{a}, []string{"a"}},
		{"what ends on the target makes room in time", watched(podsOf(job("p", 8, time.Hour)), one("a"), node("c", job("x", 8, 6*minute))), []cluster.Drain{a}, []string{"a"}},
		{"what is to be replaced", watched(nil, one("a")), []cluster.Drain{{Node: "a", Replacement: &cluster.Purchase{Flavor: "small"}}}, []string{"a"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := cloned(tc.s)
			if diff := cmp.Diff(tc.want, drainsOf(Affordable(tc.s, tc.drains))); diff != "" {
				t.Errorf("drains (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.s); diff != "" {
				t.Errorf("the cluster was modified:\n%s", diff)
			}
		})
	}
}

// TestOfDrainsAsManyGoAsLeaveNobodyWaiting has as many drains as fit on one target, of which waiting
// pods need some nodes: from the first on, the others go.
func TestOfDrainsAsManyGoAsLeaveNobodyWaiting(t *testing.T) {
	for need := range 11 {
		s := watched(nil, changedNode(node("target"), func(n *cluster.Node) { n.Arch = "arm64" }))
		var drains []cluster.Drain
		for i := range 10 {
			name := fmt.Sprintf("n%d", i)
			s.Nodes = append(s.Nodes, node(name, job("on-"+name, 1, time.Hour)))
			drains = append(drains, cluster.Drain{Node: name, Moves: []cluster.Move{{Pod: "on-" + name, Target: "target"}}})
			if i < need {
				s.Pending = append(s.Pending, needing(job(fmt.Sprintf("p%d", i), 9, time.Hour), "amd64"))
			}
		}
		if got := len(Affordable(s, drains)); got != 10-need {
			t.Errorf("%d of 10 nodes go where pods need %d", got, need)
		}
	}
}

// TestPlansAreNotWrittenIntoTheCluster gives the target a list of pods with places to spare.
func TestPlansAreNotWrittenIntoTheCluster(t *testing.T) {
	on := make([]cluster.Pod, 1, 2)
	on[0] = job("y", 1, time.Hour)
	s := watched(nil, node("a", job("x", 1, time.Hour)), node("b", on...))
	Affordable(s, []cluster.Drain{{Node: "a", Moves: []cluster.Move{{Pod: "x", Target: "b"}}}})
	if spare := on[:2][1]; spare.Name != "" {
		t.Errorf("pod %s was written behind the pods of its target", spare.Name)
	}
}

func TestTheMostThatIsNotMissed(t *testing.T) {
	for limit := 1; limit <= 20; limit++ {
		for most := range limit + 1 {
			asked := 0
			got := mostMissed(limit, func(n int) int {
				asked++
				return 3 + max(0, n-most)
			})
			if got != most || asked > 2+5 {
				t.Errorf("of %d, %d after %d questions, want %d", limit, got, asked, most)
			}
		}
	}
}

// TestWhatGoesLeavesNobodyWaiting states what holds whatever the cluster: after the drains and
// without the machines given back no more pods wait than with them, and they are asked
// for as documented.
func TestWhatGoesLeavesNobodyWaiting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		s.Observed = 7 * minute
		for i := range s.Nodes {
			if rapid.Bool().Draw(t, "empty") {
				s.Nodes[i].Pods = nil
			}
		}
		drains := Affordable(s, drawDrains(t, s))
		gone := Idle(s, drains)
		before, without := cloned(s), drained(cloned(s), drains)
		names := strings.Join(released(gone), " ")
		for _, r := range gone {
			at := slices.IndexFunc(without.Nodes, func(n cluster.Node) bool { return n.Name == r.Node })
			if n := &without.Nodes[at]; len(n.Pods) > 0 || n.Phase != cluster.Ready {
				t.Fatalf("%s is given back with %d pods in phase %d", n.Name, len(n.Pods), n.Phase)
			}
			without.Nodes = slices.Delete(without.Nodes, at, at+1)
		}
		with, after := len(newForecast(before, horizon(s), nil).run()), len(newForecast(without, horizon(s), nil).run())
		if after > with {
			t.Fatalf("after drains of %v and without %s %d pods wait, with them %d", drainsOf(drains), names, after, with)
		}
		if diff := cmp.Diff(gone, Idle(cloned(s), drains)); diff != "" {
			t.Fatalf("asked again it says otherwise:\n%s", diff)
		}
	})
}

// drawDrains empties nodes of one pod onto the next that has room.
func drawDrains(t *rapid.T, s *cluster.State) []cluster.Drain {
	var drains []cluster.Drain
	targets := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Phase != cluster.Ready || len(n.Pods) != 1 || targets[n.Name] || !rapid.Bool().Draw(t, "drain") {
			continue
		}
		for j := i + 1; j < len(s.Nodes); j++ {
			to := &s.Nodes[j]
			if to.Phase == cluster.Ready && !targets[to.Name] && n.Pods[0].Size.Fits(to.Free()) {
				drains = append(drains, cluster.Drain{Node: n.Name, Moves: []cluster.Move{{Pod: n.Pods[0].Name, Target: to.Name}}})
				targets[to.Name] = true
				break
			}
		}
	}
	return drains
}
