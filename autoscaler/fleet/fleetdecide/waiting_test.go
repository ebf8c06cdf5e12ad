package fleetdecide

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// TestOnlyPodsThatAreGoingToRunHereKeepMachines has an empty machine and various pending pods. A machine accepts any
// pod of size up to 10.
func TestOnlyPodsThatAreGoingToRunHereKeepMachines(t *testing.T) {
	foreign := func(n cluster.Node) cluster.Node { n.Kept = true; return n }
	nominated := func(p cluster.Pod) cluster.Pod { p.Nominated = true; return p }
	long := func(p cluster.Pod) cluster.Pod { p.Waited = patience; return p }
	gathering := func(o *FleetOptions) { o.Buy = false }
	exhausted := func(o *FleetOptions) { o.Exhausted = "the limit spec.limits.machines is reached" }
	shut := func(n cluster.Node) cluster.Node { n.Class = class.Service; return n }
	tests := []struct {
		name     string
		s        *cluster.State
		change   func(*FleetOptions)
		released []string
		queued   bool
	}{
		{"nothing waits", quiet(nil, node("a")), nil, []string{"a"}, false},
		{"a batch pod that no machine holds", quiet(podsOf(job("p", 11, time.Hour)), node("a")), nil, []string{"a"}, false},
		{"a service that no machine holds", quiet(podsOf(service("p", 11)), shut(node("a"))), nil, []string{"a"}, false},
		{"a batch pod that the machine has room for", quiet(podsOf(job("p", 6, time.Hour)), node("a")), nil, []string{}, true},
		{"a service that the machine has room for", quiet(podsOf(service("p", 6)), node("a")), nil, []string{}, false},
		{"a batch pod that has been left waiting for long", quiet(podsOf(long(job("p", 6, time.Hour))), node("a"), node("b")), nil, []string{"b"}, false},
		{"a batch pod that goes where another ends", quiet(podsOf(job("p", 6, time.Hour)), full("b", minute), shut(node("a"))), nil, []string{"a"}, true},
		{"a service that goes where a batch pod ends, and suits only that", quiet(podsOf(service("p", 6)), full("b", minute), of(class.Batch, node("a"))), nil, []string{"a"}, false},
		{"a batch pod with a machine on order", quiet(podsOf(nominated(job("p", 6, time.Hour))), due(minute, node("b")), shut(node("a"))), nil, []string{"a"}, true},
		{"a batch pod with a machine of another fleet on order", quiet(podsOf(job("p", 6, time.Hour)), foreign(due(minute, node("b"))), shut(node("a"))), nil, []string{"a"}, false},
		{"the same, while more are awaited", quiet(podsOf(job("p", 6, time.Hour)), foreign(due(minute, node("b"))), shut(node("a"))), gathering, []string{"a"}, true},
		{"nothing holds it, while more are awaited", quiet(podsOf(job("p", 11, time.Hour)), node("a")), gathering, []string{"a"}, false},
		{"the machine has room for it, while more are awaited", quiet(podsOf(job("p", 6, time.Hour)), node("a")), gathering, []string{}, true},
		{"a limit is reached", quiet(podsOf(job("p", 6, time.Hour)), full("b", time.Hour), shut(node("a"))), exhausted, []string{"a"}, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := all()
			if tc.change != nil {
				tc.change(&o)
			}
			d := Fleet(tc.s, o, mover(), midnight)
			if diff := cmp.Diff(tc.released, released(d.Release)); diff != "" {
				t.Errorf("released (-want +got):\n%s\n%+v", diff, d)
			}
			if d.Queued != tc.queued {
				t.Errorf("a batch pod is queued: %t, want %t", d.Queued, tc.queued)
			}
		})
	}
}

func TestNothingIsMovedWhileAPodWaitsThatIsGoingToRunHere(t *testing.T) {
	under := func(pending ...cluster.Pod) *cluster.State {
		return quiet(podsOf(pending...), node("a", job("x", 2, time.Hour)), node("b", job("y", 7, time.Hour)))
	}
	for name, tc := range map[string]struct {
		s    *cluster.State
		want []string
	}{
		"nothing waits": {under(), []string{"a"}},
		"a service that would take the room of the moved": {under(service("p", 3)), []string{}},
		"a service that no machine holds":                 {under(service("p", 11)), []string{"a"}},
		"a batch pod that no machine holds":               {under(job("p", 11, time.Hour)), []string{"a"}},
	} {
		if diff := cmp.Diff(tc.want, drainsOf(Fleet(tc.s, all(), mover(), midnight).Drains)); diff != "" {
			t.Errorf("%s: emptied (-want +got):\n%s", name, diff)
		}
	}
}
