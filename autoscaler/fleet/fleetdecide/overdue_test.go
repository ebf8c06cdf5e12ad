package fleetdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
)

func TestHowLongAMachineIsWaitedFor(t *testing.T) {
	const timeout = 10 * minute
	node := func(m *Machine, change func(n *NodeState)) {
		m.Node, m.NodeState = "a", &NodeState{Name: "a", Created: m.Ordered, Changed: m.Ordered}
		m.Key, m.OnOrder = "a", false
		if change != nil {
			change(m.NodeState)
		}
	}
	ceased := func(ago time.Duration) func(*NodeState) {
		return func(n *NodeState) { n.Changed = midnight.Add(-ago) }
	}
	for _, tc := range []struct {
		name string
		age  time.Duration
		set  func(m *Machine)
		want string // "" if it is awaited
	}{
		{"no node, in time", timeout - 1, nil, ""},
		{"no node, late", timeout, nil, "no ready node within 10m0s"},
		{"no node, late, and what is waited for", timeout, func(m *Machine) { m.Waits = "an address" }, "no ready node within 10m0s: an address"},
		{"it failed", 0, func(m *Machine) { m.Failed = "no capacity" }, "no capacity"},
		{"it failed, and there may be pods on it", 0, func(m *Machine) { m.Failed, m.Unidentified = "no capacity", "two nodes" }, ""},
		{"nobody knows which node is on it", time.Hour, func(m *Machine) { m.Unidentified = "two nodes" }, ""},
		{"its node is gone since now", time.Hour, func(m *Machine) { m.Node = "a" }, ""},
		{"its node was never ready", timeout, func(m *Machine) { node(m, nil) }, "node a has not become ready within 10m0s"},
		{"its node is ready", time.Hour, func(m *Machine) { node(m, func(n *NodeState) { n.Ready = true }) }, ""},
		{"its node is drained", time.Hour, func(m *Machine) { node(m, func(n *NodeState) { n.Drained = true }) }, ""},
		{"its node is being deleted", time.Hour, func(m *Machine) { node(m, func(n *NodeState) { n.Deleted = true }) }, ""},
		{"its node ceased to be ready a while ago", time.Hour, func(m *Machine) { node(m, ceased(timeout-1)) }, ""},
		{"its node ceased to be ready long ago", time.Hour, func(m *Machine) { node(m, ceased(timeout)) }, "node a has not been ready since 2025-12-31T23:50:00Z"},
		{"a pod would be lost", time.Hour, func(m *Machine) { node(m, func(n *NodeState) { n.Remains = Remains{Pods: 1, Lost: "p"} }) }, ""},
		{"a grace period continues", time.Hour, func(m *Machine) { node(m, func(n *NodeState) { n.Remains = Remains{Pods: 1, After: 1} }) }, ""},
		{"grace periods are over", time.Hour, func(m *Machine) { node(m, func(n *NodeState) { n.Remains = Remains{Pods: 2} }) },
			"node a has not become ready within 10m0s, and the grace periods of the 2 terminating pods on it are over"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			m := s.machine("m", "small", tc.age)
			if tc.set != nil {
				tc.set(m)
			}
			s.State.Nodes[0].Name = m.Key
			a := s.round()
			got := ""
			if len(a.Abandoned) > 0 {
				got = a.Abandoned[0].Why
			}
			if got != tc.want {
				t.Errorf("it is late because %q, want %q", got, tc.want)
			}
			if closes := len(a.Cordon) == 1; closes != (got != "" && m.NodeState != nil) {
				t.Errorf("its node is cordoned: %t", closes)
			}
			if released := len(a.Abandoned) > 0 && len(a.Abandoned[0].Release) == 1; released != (got != "" && m.NodeState == nil) {
				t.Errorf("it is released: %t", released)
			}
		})
	}
}

func TestAMachineThatLostItsNodeIsWaitedForSinceThat(t *testing.T) {
	s := newScene()
	m := s.machine("m", "small", time.Hour)
	m.Node = "a"
	at := func(after time.Duration) int {
		return len(Round(&s.Observation, s.m, s.c, midnight.Add(after)).Abandoned)
	}
	if at(0)+at(10*minute-1) > 0 {
		t.Error("it is abandoned early")
	}
	if at(10*minute) != 1 {
		t.Error("it is not abandoned")
	}
	m.NodeState = &NodeState{Name: "m", Ready: true}
	at(11 * minute)
	m.NodeState = nil
	if at(12*minute) > 0 {
		t.Error("it is abandoned although its node was there meanwhile")
	}
}

func TestMachinesThatThereMustBeAreNotAbandoned(t *testing.T) {
	s := newScene()
	for i := range 3 {
		s.machine(fmt.Sprintf("m%d", i), "small", 10*minute)
	}
	s.flavor("small").Min = 2
	a := s.round()
	check(t, a, "abandon small: release [m0] of 3, 0 fewer")
	if got := a.Abandoned[0]; got.New != 3 || len(got.Unseen) != 3 {
		t.Errorf("%d are late and %d are to be checked again, want 3", got.New, len(got.Unseen))
	}
	if want := "abandoned 1 machine of flavor small, and still waits for 2: "; !strings.HasPrefix(a.Abandoned[0].Event.Message, want) {
		t.Errorf("told is %q, want %q", a.Abandoned[0].Event.Message, want)
	}
	s.m.Abandoned(a.Abandoned)
	s.Machines = s.Machines[1:]
	s.flavor("small").Want, s.flavor("small").Ordered = 2, 2
	if a := s.round(); len(a.Abandoned)+len(a.Events) > 0 {
		t.Errorf("that two are late is told again: %v", a.Events)
	}
}

func TestMachinesThatWereNeverMadeAreWantedNoMore(t *testing.T) {
	s := newScene()
	f := s.flavor("small")
	f.Want, f.Ordered = 3, 3
	at := func(after time.Duration) Actions { return Round(&s.Observation, s.m, s.c, midnight.Add(after)) }
	if a := at(0); len(a.Abandoned) > 0 {
		t.Errorf("at once: %v", does(&a))
	}
	a := at(10 * minute)
	check(t, a, "abandon small: release [] of 3, 3 fewer")
	if want := "abandoned 3 machines of flavor small: it has 3 machines fewer than desired; "; !strings.HasPrefix(a.Abandoned[0].Event.Message, want) {
		t.Errorf("told is %q, want %q", a.Abandoned[0].Event.Message, want)
	}
	f.Min = 2
	check(t, at(10*minute), "abandon small: release [] of 3, 1 fewer")
	f.Blocked = 3 // as many are being deleted
	check(t, at(10*minute))
	f.Blocked, f.Unusable = 0, true
	check(t, at(10*minute))
}

// TestMachinesOfAKeptFlavorAreOnlyReported: of a flavor that is also unusable, as while it is paused, not even that,
// because its machines are late for a known reason.
func TestMachinesOfAKeptFlavorAreOnlyReported(t *testing.T) {
	s := newScene()
	s.machine("m", "small", 10*minute)
	s.flavor("small").Kept, s.flavor("small").Unusable = true, true
	check(t, s.round())
	s.flavor("small").Unusable = false
	check(t, s.round(), "abandon small: release [] of 1, 0 fewer")
}

// TestPodsDoNotWaitForMachinesThatARolloutNeverMakes has a kept flavor of which cluster-api makes no machine: nothing may
// be lowered, but the flavor is in back-off, so that another is bought.
func TestPodsDoNotWaitForMachinesThatARolloutNeverMakes(t *testing.T) {
	s := newScene()
	f := s.flavor("small")
	f.Want, f.Ordered, f.Kept = 1, 1, true
	at := func(after time.Duration) Actions { return Round(&s.Observation, s.m, s.c, midnight.Add(after)) }
	if a := at(0); len(a.Abandoned) > 0 {
		t.Errorf("at once: %v", does(&a))
	}
	a := at(10 * minute)
	check(t, a, "abandon small: release [] of 1, 0 fewer")
	if want := "stopped waiting for 1 machine of flavor small: "; !strings.HasPrefix(a.Abandoned[0].Event.Message, want) {
		t.Errorf("told is %q, want %q", a.Abandoned[0].Event.Message, want)
	}
	if b := &a.Abandoned[0]; b.Failures != 1 || !b.frees() || b.changes() {
		t.Errorf("decided: %+v, want a back-off and no change", b)
	}
}

func TestDeadNodesAreToldUnlessTheyAreAbandoned(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(s *scene, m *Machine)
		want string
	}{
		{"a pod may run", func(_ *scene, m *Machine) { m.NodeState.Remains = Remains{Pods: 1, Lost: "p"} }, "node a is not ready, and pod p on it is not being deleted"},
		{"there must be as many", func(s *scene, _ *Machine) { s.flavor("small").Min = 1 }, "has its minimum number of machines"},
		{"it is going to be abandoned", func(*scene, *Machine) {}, ""},
		{"it ceased to be ready just now", func(s *scene, m *Machine) { m.NodeState.Changed, s.flavor("small").Min = midnight, 1 }, ""},
		{"it is ready", func(s *scene, m *Machine) { m.NodeState.Ready, s.flavor("small").Min = true, 1 }, ""},
		{"it is drained", func(s *scene, m *Machine) { m.NodeState.Drained, s.flavor("small").Min = true, 1 }, ""},
	} {
		s := newScene()
		m := s.ready("a", "small")
		m.NodeState.Ready = false
		tc.set(s, m)
		if got := strings.Join(s.Dead(midnight), "; "); !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestATaintThatRemainsIsTold(t *testing.T) {
	for _, tc := range []struct {
		name    string
		taints  []string
		pods    int
		told    bool
		avoided bool
	}{
		{"it is gone", nil, 0, false, false},
		{"it remains", []string{"driver:NoSchedule"}, 0, true, true},
		{"it remains, and a pod tolerates it", []string{"driver:NoSchedule"}, 1, true, false},
	} {
		s := newScene()
		m := s.machine("m", "small", 9*minute)
		m.Startup = "driver:NoSchedule"
		m.NodeState = &NodeState{Name: "a", Ready: true, Created: m.Ordered, Changed: m.Ordered}
		s.round()
		m.Key, m.OnOrder, m.Startup, m.NodeState.Taints = "a", false, "", tc.taints
		n := &s.State.Nodes[0]
		n.Name = "a"
		if tc.pods > 0 {
			n.Pods = podsOf(job("x", 1, time.Hour))
		}
		a := s.round()
		if told := len(a.Events) > 0 && a.Events[0].Reason == "TaintRemains"; told != tc.told || len(a.Avoid) == 1 != tc.avoided || len(a.Joined) == 1 == tc.told {
			t.Errorf("%s: told %t, avoided %v, joined %v", tc.name, told, a.Avoid, a.Joined)
		}
	}
}

func TestMachinesThatAreMadeSlowlyAreNoStall(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	type sample struct {
		after       time.Duration
		made, lacks int
		// since is when the stall began, and missing the number that is lacking.
		since   time.Duration
		missing int
	}
	tests := map[string][]sample{
		"nothing is made":               {{0, 3, 2, 0, 2}, {time.Minute, 3, 2, 0, 2}},
		"one is made":                   {{0, 3, 2, 0, 2}, {time.Minute, 4, 1, time.Minute, 1}},
		"more are ordered":              {{0, 3, 2, 0, 2}, {time.Minute, 3, 5, 0, 2}},
		"one is made, more are ordered": {{0, 3, 2, 0, 2}, {time.Minute, 4, 4, time.Minute, 4}},
		"fewer are ordered":             {{0, 3, 2, 0, 2}, {time.Minute, 3, 1, 0, 1}, {2 * time.Minute, 3, 4, 0, 1}},
		"one goes and comes again":      {{0, 3, 2, 0, 2}, {time.Minute, 2, 3, 0, 2}, {2 * time.Minute, 3, 2, 2 * time.Minute, 2}},
	}
	for name, samples := range tests {
		t.Run(name, func(t *testing.T) {
			var s *stall
			for _, l := range samples {
				s = s.continues(noon.Add(l.after), l.made, l.lacks)
				if since := s.since.Sub(noon); since != l.since || s.lacks != l.missing {
					t.Errorf("after %v: since %v and %d missing, want since %v and %d", l.after, since, s.lacks, l.since, l.missing)
				}
			}
		})
	}
}

// lateness is a scene with machines of which some are late or have failed.
type lateness struct {
	*scene
	leaving, machines int
	late              map[string]int // by flavor, with those that have failed
	failed            map[string]bool
}

func drawLateness(t *rapid.T) *lateness {
	s := &lateness{scene: newScene(), late: map[string]int{}, failed: map[string]bool{}}
	s.leaving = rapid.IntRange(0, 3).Draw(t, "leaving")
	for i := range s.leaving {
		s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: fmt.Sprint("z", i), Flavor: "small", Leaving: true}})
	}
	s.machines = rapid.IntRange(0, 12).Draw(t, "machines")
	for i := range s.machines {
		flavor := rapid.SampledFrom([]string{"small", "large"}).Draw(t, "flavor")
		age := time.Duration(rapid.IntRange(0, 20).Draw(t, "age")) * minute
		m := s.machine(fmt.Sprint("m", i), flavor, age)
		if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
			m.Failed, s.failed[m.Name] = "no capacity", true
		}
		if m.Failed != "" || age >= s.flavor(flavor).JoinTimeout {
			s.late[flavor]++
		}
	}
	s.c.MaxFlavors = rapid.IntRange(0, 2).Draw(t, "flavors")
	for i := range s.Flavors {
		f := &s.Flavors[i]
		f.Min, f.Kept = rapid.SampledFrom([]int{0, 0, 0, 1, 2, 12}).Draw(t, "min"), rapid.IntRange(0, 4).Draw(t, "kept") == 0
	}
	return s
}

// abandonable returns how many machines of a flavor may be abandoned: those that are late and not needed.
func (s *lateness) abandonable(f *Flavor) int {
	if f.Kept {
		return 0
	}
	return min(s.late[f.Name], max(0, f.Want-f.Min))
}

// TestNoMoreMachinesAreAbandonedThanAreLateAndNotNeeded counts, for any machines, those that are late.
func TestNoMoreMachinesAreAbandonedThanAreLateAndNotNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawLateness(t)
		changed, slow, goes := 0, 0, false
		for i := range s.Flavors {
			goes = goes || s.abandonable(&s.Flavors[i]) > 0
		}
		for _, a := range s.round().Abandoned {
			for _, name := range a.Release {
				if !s.failed[name] {
					slow++
				}
			}
			n, most := len(a.Release)+a.Fewer, s.abandonable(s.flavor(a.Flavor))
			if n > most {
				t.Fatalf("%d machines of %s are abandoned, %d at most may be", n, a.Flavor, most)
			}
			if n > 0 {
				changed++
			}
		}
		if s.c.MaxFlavors > 0 && changed > s.c.MaxFlavors {
			t.Fatalf("machines of %d flavors are abandoned, %d at most may be", changed, s.c.MaxFlavors)
		}
		all := s.machines + s.leaving
		if most := max(1, max(2, (all+1)/2)-s.leaving); slow > most {
			t.Fatalf("of %d machines, %d of which are leaving, %d are abandoned because they are late, %d at most may be", all, s.leaving, slow, most)
		}
		if goes != (changed > 0) {
			t.Fatalf("that machines may be abandoned is %t, and of %d flavors some are", goes, changed)
		}
	})
}

// TestAtMostHalfOfTheMachinesAreAbandonedAtATime has all machines late, as with an API server that does not answer. Those
// that have failed are abandoned at once.
func TestAtMostHalfOfTheMachinesAreAbandonedAtATime(t *testing.T) {
	for _, tc := range []struct {
		late, well, failed, leaving, nodes int
		released, cordoned                 int
	}{
		{late: 1, released: 1},
		{late: 2, released: 2},
		{late: 3, released: 2},
		{late: 7, released: 4},
		{late: 8, released: 4},
		{late: 2, well: 8, released: 2},
		{late: 8, leaving: 2, released: 3}, // half of ten, with those
		{late: 8, leaving: 9, released: 1},
		{failed: 8, released: 8},
		{late: 4, failed: 4, released: 8},
		{nodes: 8, cordoned: 4},
		{late: 4, nodes: 4, released: 4},
		{late: 2, nodes: 6, released: 2, cordoned: 2},
	} {
		s := newScene()
		for i := range tc.late {
			s.machine(fmt.Sprint("late", i), "small", 10*minute)
		}
		for i := range tc.failed {
			s.machine(fmt.Sprint("failed", i), "small", minute).Failed = "no capacity"
		}
		for i := range tc.well {
			s.machine(fmt.Sprint("well", i), "small", minute)
		}
		for i := range tc.nodes {
			m := s.ready(fmt.Sprint("unready", i), "small")
			m.NodeState.Ready = false
			s.node(m.Key).Phase = cluster.Leaving
		}
		for i := range tc.leaving {
			s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: fmt.Sprint("z", i), Flavor: "small", Leaving: true}})
		}
		s.c.MaxUnavailable = intstr.FromInt32(0) // nothing else goes
		a := s.round()
		released := 0
		for i := range a.Abandoned {
			released += len(a.Abandoned[i].Release)
		}
		if released != tc.released || len(a.Cordon) != tc.cordoned {
			t.Errorf("%+v: %d are released and %d cordoned", tc, released, len(a.Cordon))
		}
	}
}

// TestMachinesThatAreAbandonedLaterAreToldOnce has five late machines.
func TestMachinesThatAreAbandonedLaterAreToldOnce(t *testing.T) {
	s := newScene()
	for i := range 5 {
		s.machine(fmt.Sprint("m", i), "small", 10*minute)
	}
	a := s.round()
	check(t, a, "abandon small: release [m0 m1 m2] of 5, 0 fewer")
	if want := "abandoned 3 machines of flavor small, and still waits for 2: no ready node within 10m0s; "; !strings.HasPrefix(a.Abandoned[0].Event.Message, want) {
		t.Errorf("told is %q, want %q", a.Abandoned[0].Event.Message, want)
	}
	s.m.Abandoned(a.Abandoned)
	s.Machines, s.State.Nodes = s.Machines[3:], s.State.Nodes[3:]
	s.flavor("small").Want, s.flavor("small").Ordered = 2, 2
	a = s.round()
	check(t, a, "abandon small: release [m3 m4] of 2, 0 fewer")
	if a.Abandoned[0].New != 0 || a.Abandoned[0].Event.Message != "" {
		t.Errorf("told again is %q", a.Abandoned[0].Event.Message)
	}
}
