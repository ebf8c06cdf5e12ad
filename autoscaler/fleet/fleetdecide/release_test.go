package fleetdecide

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/disruption"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/test/fixtures/states"
)

// watched is a cluster that has been watched for the length of a forecast.
func watched(pending []cluster.Pod, nodes ...cluster.Node) *cluster.State {
	return came(quiet(pending, nodes...))
}

func costing(n cluster.Node, price int64) cluster.Node { n.MicroDollarsPerHour = price; return n }

func released(all []cluster.Release) []string {
	names := []string{}
	for _, r := range all {
		names = append(names, r.Node)
	}
	return names
}

func drainsOf(all []cluster.Drain) []string {
	names := []string{}
	for _, d := range all {
		names = append(names, d.Node)
	}
	return names
}

func TestEmptyMachinesThatAreNotGoingToBeMissedAreReleased(t *testing.T) {
	r := often(job("r", 5, time.Hour), 3) // two of which are counted within two minutes
	tests := []struct {
		name string
		s    *cluster.State
		want []string
	}{
		{"an empty machine", watched(nil, node("a")), []string{"a"}},
		{"not one with a pod", watched(nil, node("a", job("x", 1, minute))), []string{}},
		{"not one on order", watched(nil, due(minute, node("a"))), []string{}},
		{"not one for a pod that is expected before another would come", came(quiet(nil, node("a")), r...), []string{}},
		{"but another beside it", came(quiet(nil, node("a"), node("b")), r...), []string{"a"}},
		{"a pod that comes later finds a new one", came(quiet(nil, node("a")), ago(job("r", 10, time.Hour), 2*minute), ago(job("s", 10, time.Hour), 2*minute)), []string{"a"}},
		{"room that comes free in time is as good", came(quiet(nil, node("a"), full("b", minute/2)), r...), []string{"a"}},
		{"a machine on order is as good", came(quiet(nil, node("a"), due(minute/2, node("b"))), r...), []string{"a"}},
		{"a pod that came once is not expected to come again", came(quiet(nil, node("a")), ago(job("r", 10, time.Hour), time.Minute)), []string{"a"}},
		{"pods that are unschedulable in any case keep none", came(quiet(nil, node("a")), often(job("r", 11, time.Hour), 4)...), []string{"a"}},
		{"where nothing is watched, all", observed(watched(nil, node("a"), node("b")), 0), []string{"a", "b"}},
		{"the dearest first", came(quiet(nil, costing(node("a"), 10), costing(node("b"), 30), costing(node("c"), 20)), r...), []string{"b", "c"}},
		{"of the same price by name", came(quiet(nil, costing(node("a"), 10), costing(node("b"), 10)), r...), []string{"a"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := cloned(tc.s)
			if diff := cmp.Diff(tc.want, released(Fleet(tc.s, all(), mover(), midnight).Release)); diff != "" {
				t.Errorf("machines that go (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.s); diff != "" {
				t.Errorf("the cluster was modified:\n%s", diff)
			}
		})
	}
}

func TestAReleaseNamesWhatItSaves(t *testing.T) {
	s := watched(nil, costing(node("a"), 3_600_000))
	s.BillingPeriod = minute
	s.Nodes[0].Age = minute
	got := Fleet(s, all(), mover(), midnight).Release[0].Reason
	want := "it is empty and costs $3.6000/h, billed for 1m0s at a time; without it, no more pods are expected to wait within 2m0s, and starting another machine would cost $0.120000"
	if got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}

// TestWhatIsPaidForIsKept runs rounds every 20 s or when the decision requests one.
func TestWhatIsPaidForIsKept(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name            string
		period, release time.Duration
		goes, stays     []time.Duration // ages
	}{
		{"by the minute", minute, 0,
			[]time.Duration{50*s + 1, 60 * s, 110*s + 1, 120 * s}, []time.Duration{0, 20 * s, 50 * s, 60*s + 1, 110 * s}},
		{"the release is paid too", minute, 5 * s,
			[]time.Duration{45*s + 1, 55 * s, 105*s + 1, 115 * s}, []time.Duration{0, 45 * s, 55*s + 1, 105 * s}},
		{"a release of more than a minute", minute, 65 * s,
			[]time.Duration{45*s + 1, 55 * s}, []time.Duration{0, 45 * s, 55*s + 1}},
		{"by the hour", time.Hour, 0,
			[]time.Duration{3590*s + 1, 3600 * s, 7200 * s}, []time.Duration{0, 40*s + 1, 3590 * s, 3600*s + 1}},
		{"by less than it takes to notice", 10 * s, 0, []time.Duration{1, s, 10 * s}, nil},
		{"by the second", s, 0, []time.Duration{0, 1, s}, nil},
		{"to the moment", 0, 0, []time.Duration{0, 1, s}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			given := func(age time.Duration) bool {
				s := watched(nil, node("a"))
				s.BillingPeriod, s.Release, s.Nodes[0].Age = tc.period, tc.release, age
				d := Fleet(s, all(), mover(), midnight)
				if len(d.Release) == 0 {
					s.Nodes[0].Age += d.Wake
					if d.Wake == 0 || len(Fleet(s, all(), mover(), midnight).Release) == 0 {
						t.Errorf("at %v it stays, and after %v, too", age, d.Wake)
					}
				}
				return len(d.Release) == 1
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

// TestReleasesLeaveNobodyWaiting checks an invariant: without the released machines, no more pods are pending than with
// them at the time when replacements could have come.
func TestReleasesLeaveNobodyWaiting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := states.Draw(t, true)
		s.Pending, s.Observed, s.QueueEmpty = nil, 7*minute, time.Hour
		for i := range s.Nodes {
			if rapid.Bool().Draw(t, "empty") {
				s.Nodes[i].Pods = nil
			}
		}
		gone := map[string]bool{}
		for _, r := range Fleet(s, all(), mover(), midnight).Release {
			gone[r.Node] = true
		}
		s.Recent = steady(s, nil)
		if with, without := len(newForecast(s, s.Lag, nil).run()), len(newForecast(s, s.Lag, gone).run()); without > with {
			t.Fatalf("without %v %d pods wait, with them %d", gone, without, with)
		}
	})
}

// TestAMachineIsKeptForPodsThatComeBeforeAnotherWouldHaveCostAsMuch has two empty machines, and five pods expected
// every two minutes, which fill one of them. Another machine takes two minutes.
func TestAMachineIsKeptForPodsThatComeBeforeAnotherWouldHaveCostAsMuch(t *testing.T) {
	for _, tc := range []struct {
		goes     time.Duration // how long the release of a machine takes
		released int
	}{{0, 1}, {minute / 2, 1}, {2 * minute, 0}} {
		s := came(quiet(nil, node("a"), node("b")), often(job("", 2, time.Hour), 7)...)
		s.Release = tc.goes
		for i := range s.Nodes {
			s.Nodes[i].MicroDollarsPerHour = 3_600_000
		}
		d := Fleet(s, all(), mover(), midnight)
		if len(d.Release) != tc.released {
			t.Errorf("where a machine takes %v to go, %d are released, want %d", tc.goes, len(d.Release), tc.released)
		}
		for _, r := range d.Releases {
			if want := int64((2*minute + tc.goes).Seconds() * 1000); r.Another != want {
				t.Errorf("where a machine takes %v to go, another would cost %d, want %d", tc.goes, r.Another, want)
			}
		}
	}
}

func TestMachinesThatMustGoAreReplacedOneAtATimeAndTheReplacementIsBoughtFirst(t *testing.T) {
	drifted := func(m *Machine) { m.Outdated = true }
	for _, tc := range []struct {
		name   string
		change func(*scene, *Machine)
		want   []string
		kept   string
	}{
		{"nothing is wrong", func(*scene, *Machine) {}, nil, ""},
		{"too old", func(_ *scene, m *Machine) { m.Ordered = midnight.Add(-1000 * time.Hour) }, []string{"order small 2 to 3", "cordon a"}, ""},
		{"drifted", func(_ *scene, m *Machine) { drifted(m) }, []string{"order small 2 to 3", "cordon a"}, ""},
		{"drifted, and cluster-api replaces it", func(_ *scene, m *Machine) { drifted(m); m.RolledOut = true }, nil, ""},
		{"unhealthy", func(_ *scene, m *Machine) { m.NodeState.Unhealthy = "its disk is read-only" }, []string{"order small 2 to 3", "cordon a"}, ""},
		{"whatever the policy", func(s *scene, m *Machine) { drifted(m); s.c.Empty, s.c.UnderUsed = false, false }, []string{"order small 2 to 3", "cordon a"}, ""},
		{"a budget for drifted machines", func(s *scene, m *Machine) {
			drifted(m)
			s.c.Budgets = disruption.Parse([]v1alpha1.FleetBudget{{Nodes: "0", Reasons: []v1alpha1.FleetBudgetReason{v1alpha1.BudgetDrifted}}})
		}, nil, "the fleet or its template has changed since. But it stays: spec.consolidation.budgets[0] allows no more"},
		{"a budget for other reasons", func(s *scene, m *Machine) {
			drifted(m)
			s.c.Budgets = disruption.Parse([]v1alpha1.FleetBudget{{Nodes: "0", Reasons: []v1alpha1.FleetBudgetReason{v1alpha1.BudgetExpired}}})
		}, []string{"order small 2 to 3", "cordon a"}, ""},
		{"a pod that stays", func(s *scene, m *Machine) { drifted(m); s.node("a").Pods[0].Fixed = true }, nil, "But it stays: pod x must not be moved"},
		{"a machine is on order", func(s *scene, m *Machine) { drifted(m); s.machine("c", "small", minute) }, nil, ""},
		{"a pod is pending", func(s *scene, m *Machine) { drifted(m); s.pending(job("p", 9, time.Hour)) }, []string{"order large 0 to 1"}, ""},
		{"no more machines are allowed", func(s *scene, m *Machine) { drifted(m); s.c.Limits.Machines = new(int64(2)) }, nil, "But it stays: "},
		{"there is room on another machine", func(s *scene, m *Machine) { drifted(m); s.node("b").Capacity = large.Size }, []string{"cordon a"}, ""},
		{"there is room, but the flavor has its minimum", func(s *scene, m *Machine) { drifted(m); s.node("b").Pods = nil; s.flavor("small").Min = 2 },
			[]string{"order small 2 to 3", "cordon a"}, ""},
		{"an empty machine of a flavor with its minimum", func(s *scene, m *Machine) { drifted(m); s.node("a").Pods = nil; s.flavor("small").Min = 2 },
			[]string{"order small 2 to 3", "cordon a"}, ""},
		{"an empty machine is released anyway", func(s *scene, m *Machine) { drifted(m); s.node("a").Pods = nil }, []string{"cordon a"}, ""},
		{"there is room, but the flavor has its minimum, and no more machines are allowed", func(s *scene, m *Machine) {
			drifted(m)
			s.node("a").Pods, s.flavor("small").Min, s.c.Limits.Machines = nil, 2, new(int64(2))
		}, nil, "has its minimum number of machines, and no other can be bought"},
		{"another machine could be exchanged for a cheaper one", func(s *scene, m *Machine) {
			drifted(m)
			s.c.Horizon = 8 * time.Hour
			s.ready("l", "large", service("z", 2))
		}, []string{"cordon a"}, ""},
		{"its flavor has its minimum and cannot be bought", func(s *scene, m *Machine) {
			drifted(m)
			s.node("b").Pods, s.flavor("small").Min = nil, 2
			s.State.Flavors = s.State.Flavors[:1]
		}, nil, "flavor small has its minimum number of machines, and no other can be bought"},
		{"two of them", func(s *scene, m *Machine) { drifted(m); s.Machines[1].Outdated = true }, []string{"order small 2 to 3", "cordon a"}, ""},
		{"the fleet only observes what is not ready", func(s *scene, m *Machine) { drifted(m); m.NodeState.Deleted = true }, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.c.MoveServices, s.c.Replace = true, disruption.Policy{ExpireAfter: 1000 * time.Hour, Drifted: true}
			s.c.Horizon = minute // nothing is exchanged for its price
			s.ready("a", "small", service("x", 4))
			s.ready("b", "small", service("y", 4))
			tc.change(s, &s.Machines[0])
			a := s.round()
			check(t, a, tc.want...)
			kept := ""
			for _, k := range a.Fleet.Kept {
				if k.Node == "a" {
					kept += k.Reason
				}
			}
			if !strings.Contains(kept, tc.kept) || tc.kept == "" && strings.Contains(kept, "replaced") {
				t.Errorf("it is kept because %q, want %q", kept, tc.kept)
			}
		})
	}
}

// TestIfTooManyMachinesAreUnhealthyTheFleetSaysSo has three machines, of which two are unhealthy.
func TestIfTooManyMachinesAreUnhealthyTheFleetSaysSo(t *testing.T) {
	s := newScene()
	for i, name := range []string{"a", "b", "c"} {
		m := s.ready(name, "small", service("x"+name, 4))
		if i < 2 {
			m.NodeState.Unhealthy = "its disk is read-only"
		}
	}
	s.c.Horizon = minute
	a := s.round()
	check(t, a)
	if len(a.Events) != 1 || a.Events[0].Reason != v1alpha1.FleetReasonNodesUnhealthy || !strings.HasPrefix(a.Events[0].Message, "2 of 3 machines are unhealthy") {
		t.Errorf("Events: %+v", a.Events)
	}
}
