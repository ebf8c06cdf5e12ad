package profilerdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var acting = Limits{AtOnce: 1, Settle: 5 * time.Second, Backoff: time.Minute, MostBackoff: time.Hour}

// fresh returns a type with an empty node that has never been probed.
func fresh(change ...func(*Type)) Type {
	t := Type{Name: "xeon", Hardware: "new", Nodes: []Node{{Name: "a", Hardware: "new"}}}
	for _, c := range change {
		c(&t)
	}
	return t
}

func node(change func(*Node)) func(*Type) { return func(t *Type) { change(&t.Nodes[0]) } }

func reservedFor(d time.Duration) func(*Type) {
	return node(func(n *Node) { n.Reserved = noon.Add(-d) })
}

func job(s State) func(*Type) {
	return func(t *Type) {
		t.Job = &Job{State: s, Node: "a", Hardware: "new", Failure: "killed"}
		t.Nodes[0].Reserved = noon.Add(-time.Hour)
	}
}

func TestEachStepFollowsFromWhatIsSeen(t *testing.T) {
	tests := []struct {
		name   string
		typ    Type
		action Action
		reason string
	}{
		{"a new type with an empty node", fresh(), Reserve, v1alpha1.ProfileReasonNodeReserved},
		{"hardware that is not known", fresh(func(t *Type) { t.Hardware = "" }), Nothing, v1alpha1.ProfileReasonHardwareUnknown},
		{"hardware that was probed", fresh(func(t *Type) { t.Probed = "new" }), Nothing, v1alpha1.ProfileReasonProbed},
		{"hardware that has changed", fresh(func(t *Type) { t.Probed = "old" }), Reserve, v1alpha1.ProfileReasonNodeReserved},
		{"a busy node", fresh(node(func(n *Node) { n.Busy = "ns/p" })), Nothing, v1alpha1.ProfileReasonNoEmptyNode},
		{"a closed node", fresh(node(func(n *Node) { n.Closed = "it is cordoned" })), Nothing, v1alpha1.ProfileReasonNoEmptyNode},
		{"a small node", fresh(node(func(n *Node) { n.Small = "10 m CPU" })), Nothing, v1alpha1.ProfileReasonNoEmptyNode},
		{"a pod that waits", fresh(node(func(n *Node) { n.Wanted = "ns/p" })), Nothing, v1alpha1.ProfileReasonNoEmptyNode},
		{"a node of other hardware", fresh(node(func(n *Node) { n.Hardware = "old" })), Nothing, v1alpha1.ProfileReasonNoEmptyNode},
		{"no nodes", fresh(func(t *Type) { t.Nodes = nil }), Nothing, v1alpha1.ProfileReasonNoEmptyNode},
		{"a failure just now", fresh(func(t *Type) { t.Failures, t.Last = 1, noon.Add(-59*time.Second) }), Nothing, v1alpha1.ProfileReasonBackingOff},
		{"a failure a while ago", fresh(func(t *Type) { t.Failures, t.Last = 1, noon.Add(-time.Minute) }), Reserve, v1alpha1.ProfileReasonNodeReserved},
		{"three failures", fresh(func(t *Type) { t.Failures, t.Last = 3, noon.Add(-3*time.Minute) }), Nothing, v1alpha1.ProfileReasonBackingOff},
		{"many failures, not long ago", fresh(func(t *Type) { t.Failures, t.Last = 99, noon.Add(-59*time.Minute) }), Nothing, v1alpha1.ProfileReasonBackingOff},
		{"many failures", fresh(func(t *Type) { t.Failures, t.Last = 99, noon.Add(-time.Hour) }), Reserve, v1alpha1.ProfileReasonNodeReserved},

		{"just reserved", fresh(reservedFor(4 * time.Second)), Nothing, v1alpha1.ProfileReasonNodeReserved},
		{"reserved for long enough", fresh(reservedFor(5 * time.Second)), Launch, v1alpha1.ProfileReasonProbing},
		{"a pod has come nevertheless", fresh(reservedFor(time.Minute), node(func(n *Node) { n.Busy = "ns/p" })), Free, v1alpha1.ProfileReasonNodeBusy},
		{"a pod waits", fresh(reservedFor(time.Minute), node(func(n *Node) { n.Wanted = "ns/p" })), Free, v1alpha1.ProfileReasonPodsPending},
		{"it was cordoned meanwhile", fresh(reservedFor(time.Minute), node(func(n *Node) { n.Closed = "it is cordoned" })), Free, v1alpha1.ProfileReasonNoEmptyNode},
		{"reserved, and probed already", fresh(reservedFor(time.Minute), func(t *Type) { t.Probed = "new" }), Free, v1alpha1.ProfileReasonProbed},
		{"reserved, of other hardware now", fresh(reservedFor(time.Minute), func(t *Type) { t.Hardware = "newer" }), Free, v1alpha1.ProfileReasonOtherHardware},

		{"it runs", fresh(job(Running)), Nothing, v1alpha1.ProfileReasonProbing},
		{"it runs and the reservation has gone", fresh(job(Running), node(func(n *Node) { n.Reserved = time.Time{} })), Reserve, v1alpha1.ProfileReasonReservationLost},
		{"it runs and a pod waits", fresh(job(Running), node(func(n *Node) { n.Wanted = "ns/p" })), Cancel, v1alpha1.ProfileReasonPodsPending},
		{"it runs and a pod has come", fresh(job(Running), node(func(n *Node) { n.Busy = "ns/p" })), Cancel, v1alpha1.ProfileReasonNodeBusy},
		{"it runs on a node that has gone", fresh(job(Running), func(t *Type) { t.Nodes = nil }), Cancel, v1alpha1.ProfileReasonNodeGone},
		{"it runs on changed hardware", fresh(job(Running), node(func(n *Node) { n.Hardware = "newer" })), Cancel, v1alpha1.ProfileReasonOtherHardware},
		{"it runs for hardware of yesterday", fresh(job(Running), func(t *Type) { t.Hardware = "newer" }), Cancel, v1alpha1.ProfileReasonOtherHardware},
		{"it runs on a node that is cordoned", fresh(job(Running), node(func(n *Node) { n.Closed = "it is cordoned" })), Nothing, v1alpha1.ProfileReasonProbing},
		{"it has succeeded", fresh(job(Succeeded)), Collect, v1alpha1.ProfileReasonProbeSucceeded},
		{"it has failed", fresh(job(Failed)), Fail, v1alpha1.ProfileReasonProbeFailed},
		{"it is leaving", fresh(job(Leaving)), Nothing, v1alpha1.ProfileReasonProbeStopping},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			steps := Decide(acting, []Type{tc.typ}, noon)
			if len(steps) != 1 || steps[0].Action != tc.action || steps[0].Reason != tc.reason || steps[0].Message == "" {
				t.Errorf("%+v, want %q because of %s", steps, tc.action, tc.reason)
			}
		})
	}
}

func TestWhoOnlyObservesTouchesNothingNew(t *testing.T) {
	observing := acting
	observing.Inactive = "--probing is not Act"
	for want, typ := range map[Action]Type{Nothing: fresh(), Cancel: fresh(job(Running)), Free: fresh(reservedFor(time.Hour))} {
		if s := Decide(observing, []Type{typ}, noon)[0]; s.Action != want {
			t.Errorf("%+v, want %q", s, want)
		}
	}
	if s := Decide(observing, []Type{fresh()}, noon)[0]; s.Reason != v1alpha1.ProfileReasonWouldProbe || !strings.Contains(s.Message, "node a") {
		t.Errorf("%+v does not say which node it would be", s)
	}
}

func TestTypesTakeTurns(t *testing.T) {
	named := func(name string, change ...func(*Type)) Type {
		t := fresh(change...)
		t.Name = name
		return t
	}
	steps := Decide(acting, []Type{named("c"), named("a"), named("b")}, noon)
	if steps[0].Type != "a" || steps[0].Action != Reserve || steps[1].Reason != v1alpha1.ProfileReasonTooManyProbes || steps[2].Reason != v1alpha1.ProfileReasonTooManyProbes {
		t.Errorf("%+v", steps)
	}
	steps = Decide(acting, []Type{named("a"), named("b", job(Leaving))}, noon)
	if steps[0].Reason != v1alpha1.ProfileReasonTooManyProbes {
		t.Errorf("%+v while another is leaving", steps[0])
	}
	two := acting
	two.AtOnce = 2
	if steps = Decide(two, []Type{named("a"), named("b"), named("c")}, noon); steps[1].Action != Reserve || steps[2].Action != Nothing {
		t.Errorf("%+v", steps)
	}
}

func TestOfTwoReservedNodesOneIsFreed(t *testing.T) {
	typ := fresh(reservedFor(time.Hour))
	typ.Nodes = append(typ.Nodes, Node{Name: "b", Hardware: "new", Reserved: noon.Add(-time.Hour)})
	if s := Decide(acting, []Type{typ}, noon)[0]; s.Action != Free || s.Node != "b" {
		t.Errorf("%+v, want b freed", s)
	}
}

// anyTypes draws machine types with nodes and Jobs in any state.
func anyTypes(t *rapid.T) (types []Type) {
	maybe := func(what string) string { return rapid.SampledFrom([]string{"", what}).Draw(t, what) }
	for i := range rapid.IntRange(0, 4).Draw(t, "types") {
		typ := Type{Name: fmt.Sprint(i), Hardware: maybe("new"), Probed: maybe("new"), Failures: rapid.IntRange(0, 3).Draw(t, "failures"), Last: noon.Add(-time.Minute)}
		for j := range rapid.IntRange(0, 3).Draw(t, "nodes") {
			n := Node{Name: fmt.Sprintf("%d-%d", i, j), Closed: maybe("closed"), Busy: maybe("busy"), Wanted: maybe("wanted"), Hardware: maybe("new"), Small: maybe("small")}
			if rapid.Bool().Draw(t, "reserved") {
				n.Reserved = noon.Add(-time.Minute)
			}
			typ.Nodes = append(typ.Nodes, n)
		}
		if len(typ.Nodes) > 0 && rapid.Bool().Draw(t, "job") {
			typ.Job = &Job{State: State(rapid.IntRange(0, 3).Draw(t, "state")), Node: typ.Nodes[0].Name, Hardware: "new"}
		}
		types = append(types, typ)
	}
	return types
}

// TestABusyOrWantedNodeIsNeverProbed: no probe starts on a node that other pods use or need.
func TestABusyOrWantedNodeIsNeverProbed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := acting
		c.Inactive = rapid.SampledFrom([]string{"", "--probing is not Act"}).Draw(t, "inactive")
		types := anyTypes(t)
		for i, s := range Decide(c, types, noon) {
			if s.Action != Launch && s.Action != Reserve {
				continue
			}
			for _, n := range types[i].Nodes {
				if n.Name == s.Node && (n.Busy != "" || n.Wanted != "" || n.Hardware != types[i].Hardware || c.Inactive != "") {
					t.Fatalf("%+v on %+v", s, n)
				}
			}
		}
	})
}

func TestNoMoreTypesAreProbedAtOnceThanAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := acting
		c.AtOnce = rapid.IntRange(1, 2).Draw(t, "at once")
		types := anyTypes(t)
		begun, before := 0, 0
		for i, s := range Decide(c, types, noon) {
			held := types[i].Job != nil
			for _, n := range types[i].Nodes {
				held = held || !n.Reserved.IsZero()
			}
			if held {
				before++
			} else if s.Action == Reserve {
				begun++
			}
		}
		if begun > 0 && before+begun > c.AtOnce {
			t.Fatalf("%d were under way and %d are begun, want at most %d", before, begun, c.AtOnce)
		}
	})
}
