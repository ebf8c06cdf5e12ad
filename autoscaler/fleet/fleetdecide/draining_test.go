package fleetdecide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// waited returns the pod as pending for some time.
func waited(p cluster.Pod, d time.Duration) cluster.Pod {
	p.Waited = d
	return p
}

// expendable returns the pod as one below the priority of those that keep machines.
func expendable(p cluster.Pod) cluster.Pod {
	p.Expendable = true
	return p
}

// TestExpendablePodsKeepNoMachineAndLeaveNoRoomForPendingPods has a machine whose pod the scheduler has not preempted for
// one that waits.
func TestExpendablePodsKeepNoMachineAndLeaveNoRoomForPendingPods(t *testing.T) {
	s := newScene()
	s.ready("a", "small", expendable(job("z", 4, time.Hour)))
	check(t, s.round(), "cordon a")
	s = newScene()
	s.ready("a", "small", expendable(job("z", 4, time.Hour)))
	s.pending(job("p", 4, time.Hour))
	check(t, s.round(), "order small 1 to 2")
	s = newScene()
	s.ready("a", "small", expendable(job("z", 3, time.Hour)), job("y", 1, time.Hour))
	check(t, s.round())
}

// TestAnEmptyNodeIsNotCordonedAndUncordonedInTurn has a pod that the scheduler does not bind although two nodes seem to have
// room for it. One is kept for it, and the other goes.
func TestAnEmptyNodeIsNotCordonedAndUncordonedInTurn(t *testing.T) {
	p := waited(job("p", 4, time.Hour), 2*patience)
	s := newScene()
	s.ready("a", "small")
	s.ready("b", "small")
	s.pending(p)
	first := s.round()
	if len(first.Cordon) != 1 || len(first.Uncordon) != 0 {
		t.Fatalf("it does %v, want one node to be cordoned", does(&first))
	}
	gone := first.Cordon[0].Node
	left := map[string]string{"a": "b", "b": "a"}[gone]
	s = newScene()
	s.drained(gone, "small", releaseDelay)
	s.ready(left, "small")
	s.pending(p)
	second := s.round()
	if len(second.Uncordon) != 0 || !slices.Equal(second.Release, []string{gone}) {
		t.Errorf("then it does %v, want the release of %s", does(&second), gone)
	}
}

func TestWhatBecomesOfANodeThatIsDrained(t *testing.T) {
	x := job("x", 4, time.Hour)
	for _, tc := range []struct {
		name string
		set  func(s *scene)
		want string
		why  string
	}{
		{"it is empty", func(s *scene) { s.drained("a", "small", releaseDelay) }, "release a", ""},
		{"it was closed just now", func(s *scene) { s.drained("a", "small", releaseDelay-1) }, "", ""},
		{"the scheduler may be binding a pod to it", func(s *scene) {
			s.drained("a", "small", releaseDelay)
			s.Unbound = []time.Time{midnight.Add(-minute)}
		}, "", ""},
		{"a pod has not been scheduled for long", func(s *scene) {
			s.drained("a", "small", 3*minute)
			s.Unbound = []time.Time{midnight.Add(-10 * minute)}
		}, "release a", ""},
		{"a pod came later", func(s *scene) {
			s.drained("a", "small", minute)
			s.Unbound = []time.Time{midnight}
		}, "release a", ""},
		{"there must be as many machines", func(s *scene) {
			s.drained("a", "small", minute)
			s.flavor("small").Min = 1
		}, "uncordon a", "flavor small must keep at least 1 machine"},
		{"its pods have room elsewhere", func(s *scene) {
			s.drained("a", "small", minute, x)
			s.ready("b", "small")
		}, "ask a", ""},
		{"its pods have no room elsewhere", func(s *scene) { s.drained("a", "small", minute, x) }, "", ""},
		{"a pod does not leave", func(s *scene) { s.drained("a", "small", minute, x).Pods[0].Stays = "it must not" }, "uncordon a", "pod x must not be moved: it must not"},
		{"a service is on it", func(s *scene) { s.drained("a", "small", minute, service("y", 1)) }, "uncordon a", "pod y must not be moved: services are not moved"},
		{"a service is on it, and those may leave", func(s *scene) {
			s.drained("a", "small", minute, service("y", 4)).Pods[0].Resided = time.Hour
			s.ready("b", "small")
			s.c.MoveServices = true
		}, "ask a", ""},
		{"a service has no room elsewhere", func(s *scene) {
			s.drained("a", "small", minute, service("y", 4)).Pods[0].Resided = time.Hour
			s.c.MoveServices = true
		}, "", ""},
		{"a service may leave, but not this one", func(s *scene) {
			p := &s.drained("a", "small", minute, service("y", 4)).Pods[0]
			p.Resided, p.Stays = time.Hour, "it must not"
			s.c.MoveServices = true
		}, "uncordon a", "pod y must not be moved: it must not"},
		{"a service came back to it", func(s *scene) {
			s.drained("a", "small", minute, service("y", 4)).Pods[0].Resided = minute - 1
			s.ready("b", "small")
			s.c.MoveServices = true
		}, "uncordon a", "pod y must not be moved: it was bound after the node was cordoned"},
		{"a service has not been there for long", func(s *scene) {
			s.drained("a", "small", minute, service("y", 4)).Pods[0].Resided = 5*minute - 1
			s.ready("b", "small")
			s.c.MoveServices, s.c.PodResidence = true, 5*minute
		}, "uncordon a", "pod y must not be moved: it has been on its node for 5m0s and may not be moved before 5m0s"},
		{"a service that is being deleted is on it", func(s *scene) {
			s.drained("a", "small", minute, service("y", 4)).Pods[0].Going = true
			s.ready("b", "small")
		}, "ask a", ""},
		{"a pod waits for its room", func(s *scene) {
			s.drained("a", "small", minute)
			s.pending(job("p", 4, time.Hour))
		}, "uncordon a", "it has room for pending pod p"},
		{"a pod waits that did not use the room of another node before it was cordoned", func(s *scene) {
			s.drained("a", "small", minute)
			s.ready("b", "small")
			s.pending(waited(job("p", 4, time.Hour), minute+patience))
		}, "release a", ""},
		{"a pod waits that may be about to use the room of another node", func(s *scene) {
			s.drained("a", "small", minute)
			s.ready("b", "small")
			s.pending(waited(job("p", 4, time.Hour), minute+patience-1))
		}, "uncordon a", "it has room for pending pod p"},
		{"a pod has waited for long, and has no other room", func(s *scene) {
			s.drained("a", "small", minute)
			s.pending(waited(job("p", 4, time.Hour), minute+patience))
		}, "uncordon a", "it has room for pending pod p"},
		{"a pod waits for its room, and it cannot take pods", func(s *scene) {
			s.drained("a", "small", minute).Joined = false
			s.pending(job("p", 11, time.Hour))
		}, "release a", ""},
		{"its pods have the room of expendable ones", func(s *scene) {
			s.drained("a", "small", minute, x)
			s.ready("b", "small", expendable(job("z", 4, time.Hour)))
		}, "ask a", ""},
		{"it has an expendable pod, which is asked to leave", func(s *scene) { s.drained("a", "small", releaseDelay).Expendable = 1 }, "ask a", ""},
		{"its expendable pods end", func(s *scene) {
			d := s.drained("a", "small", minute)
			d.Expendable, d.Ending = 2, 2
		}, "", ""},
		{"one expendable pod does not leave, and another ends", func(s *scene) {
			d := s.drained("a", "small", minute)
			d.Expendable, d.Ending = 2, 1
		}, "ask a", ""},
		{"its expendable pod does not leave", func(s *scene) { s.drained("a", "small", minute).Expendable = 1 }, "release a, ask a", ""},
		{"its expendable pods have ended for too long", func(s *scene) {
			d := s.drained("a", "small", 5*minute)
			d.Expendable, d.Ending = 1, 1
		}, "release a", ""},
		{"a pod needs it for which nothing is ordered", func(s *scene) { s.drained("a", "small", minute).Needed = "gpu" }, "uncordon a", "it has room for pending pod gpu"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.c.Empty = false
			tc.set(s)
			a := s.round()
			if got := strings.Join(does(&a), ", "); got != tc.want {
				t.Errorf("done is %q, want %q", got, tc.want)
			}
			told := ""
			for _, e := range a.Events {
				told += e.Message
			}
			for _, n := range a.Uncordon {
				if n.Done != nil {
					told += n.Done.Message
				}
			}
			if !strings.Contains(told, tc.why) || tc.why == "" && told != "" {
				t.Errorf("told is %q, want %q", told, tc.why)
			}
		})
	}
}

// TestADrainWaitsForRoomOfItsOwnPodsAlone has a pod that does not leave its node in time, while machines are on order.
func TestADrainWaitsForRoomOfItsOwnPodsAlone(t *testing.T) {
	const lasts, timeout = 10 * minute, 5 * minute // the join timeout of a machine, and the drain timeout
	for _, tc := range []struct {
		name string
		set  func(s *scene)
		ago  time.Duration
		kept bool
	}{
		{"in time", func(*scene) {}, timeout, false},
		{"late", func(*scene) {}, timeout + 1, true},
		{"expected later", func(s *scene) { s.Drains[0].Until = midnight.Add(-timeout) }, time.Hour, false},
		{"room for it is on order", func(s *scene) { s.machine("b", "large", minute) }, timeout + 1, false},
		{"for as long as a machine may take", func(s *scene) { s.machine("b", "large", minute) }, timeout + lasts, false},
		{"and no longer", func(s *scene) { s.machine("b", "large", minute) }, timeout + lasts + 1, true},
		{"another fleet has ordered the room", func(s *scene) {
			s.machine("b", "large", minute)
			s.node("machine b").Kept = true
		}, timeout + 1, true},
		{"what is on order is too small", func(s *scene) { s.machine("b", "small", minute) }, timeout + 1, true},
		{"what is on order does not take it", func(s *scene) {
			s.machine("b", "large", minute)
			s.node("machine b").Class = class.Service
		}, timeout + 1, true},
		{"it has room already", func(s *scene) {
			s.machine("b", "large", minute)
			s.ready("c", "large")
		}, timeout + 1, true},
		{"what was ordered does not come", func(s *scene) {
			s.machine("b", "large", lasts)
			s.flavor("large").Min = 9
		}, timeout + 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.drained("a", "large", tc.ago, job("x", 5, time.Hour))
			tc.set(s)
			s.State.Flavors = nil
			got := false
			for _, n := range s.round().Uncordon {
				got = got || n.Node == "a"
			}
			if got != tc.kept {
				t.Errorf("it is kept: %t, want %t", got, tc.kept)
			}
		})
	}
}

func TestANodeThatCannotBeDrainedIsKeptForLongerEachTime(t *testing.T) {
	s := newScene()
	s.drained("a", "small", minute, service("x", 1))
	for _, want := range []time.Duration{5 * minute, 10 * minute, 20 * minute, 40 * minute, 80 * minute, 80 * minute} {
		s.round()
		if got := s.m.kept["a"].until.Sub(midnight); got != want {
			t.Errorf("it is kept for %v, want %v", got, want)
		}
	}
	s.Observation = newScene().Observation
	s.round()
	if len(s.m.kept) > 0 {
		t.Error("a node that is gone is remembered")
	}
}

func TestANodeThatIsKeptIsNotClosedAgain(t *testing.T) {
	s := newScene()
	s.ready("a", "small")
	check(t, s.round(), "cordon a")
	s.m.kept["a"] = kept{until: midnight.Add(1)}
	check(t, s.round())
	s.m.kept["a"] = kept{until: midnight}
	check(t, s.round(), "cordon a")
}

// TestANodeIsKeptNoLongerThanThePodsOnIt has a pod bound to a node that was cordoned because it was empty.
func TestANodeIsKeptNoLongerThanThePodsOnIt(t *testing.T) {
	s := newScene()
	s.drained("a", "small", releaseDelay, job("x", 4, time.Hour)).Pods[0].Stays = "it must not"
	check(t, s.round(), "uncordon a")
	after := func(pods ...cluster.Pod) Actions {
		s.Observation = newScene().Observation
		s.ready("a", "small", pods...)
		return s.round()
	}
	check(t, after(job("x", 4, time.Hour)))
	check(t, after(), "cordon a")
}

// TestOfEmptyNodesNoMoreAreOpenedThanPodsNeed has three nodes for four pods each.
func TestOfEmptyNodesNoMoreAreOpenedThanPodsNeed(t *testing.T) {
	for _, tc := range []struct {
		name string
		pods []cluster.Pod
		want []string
	}{
		{"one pod", podsOf(job("p", 4, time.Hour)), []string{"release b", "release c", "uncordon a"}},
		{"two that share one", podsOf(job("p", 2, time.Hour), job("q", 2, time.Hour)), []string{"release b", "release c", "uncordon a"}},
		{"two that do not", podsOf(job("p", 4, time.Hour), job("q", 1, time.Hour)), []string{"release c", "uncordon a", "uncordon b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			for _, name := range []string{"a", "b", "c"} {
				s.drained(name, "small", minute)
			}
			s.pending(tc.pods...)
			check(t, s.round(), tc.want...)
		})
	}
}

// TestANodeThatWasOpenedForAPodIsClosedOnceThatHasGone also if the pod never came.
func TestANodeThatWasOpenedForAPodIsClosedOnceThatHasGone(t *testing.T) {
	s := newScene()
	s.drained("a", "small", minute)
	s.pending(job("p", 4, time.Hour))
	check(t, s.round(), "uncordon a")
	after := func(pods ...cluster.Pod) Actions {
		s.Observation = newScene().Observation
		s.ready("a", "small")
		s.pending(pods...)
		s.m.busy = midnight.Add(-time.Hour) // the queue has been empty for a while
		return s.round()
	}
	check(t, after(job("p", 4, time.Hour)))
	check(t, after(), "cordon a")
}

func TestNodesThatAreNotTheFleetsAnyMoreAreOpened(t *testing.T) {
	s := newScene()
	n := node("b")
	n.Kept, n.Phase = true, cluster.Leaving
	s.State.Nodes = append(s.State.Nodes, n)
	s.Foreign = []string{"b"}
	s.pending(job("p", 4, time.Hour))
	check(t, s.round(), "uncordon b")
}

func TestTheMachinesOfADeletedFleetAreReleased(t *testing.T) {
	x := job("x", 4, time.Hour)
	for _, tc := range []struct {
		name string
		set  func(s *scene)
		want string
	}{
		{"a machine on order", func(s *scene) { s.machine("a", "small", minute) }, "abandon small: release [a] of 1, 0 fewer"},
		{"a machine that is not made", func(s *scene) { s.flavor("small").Want = 2 }, "abandon small: release [] of 2, 2 fewer"},
		{"both", func(s *scene) {
			s.machine("a", "small", minute)
			s.flavor("small").Want = 2
		}, "abandon small: release [a] of 2, 0 fewer"},
		{"a machine whose node is not identified", func(s *scene) { s.machine("a", "small", minute).Unidentified = "two nodes have it" }, ""},
		{"an empty node", func(s *scene) { s.ready("a", "small") }, "cordon a"},
		{"a node with pods", func(s *scene) { s.ready("a", "small", x) }, "cordon a"},
		{"a node below the minimum", func(s *scene) {
			s.ready("a", "small", x)
			s.flavor("small").Min = 1
		}, "cordon a"},
		{"empty nodes and others, one at a time", func(s *scene) {
			s.c.MaxUnavailable = intstr.FromInt32(1)
			s.ready("a", "small", x)
			s.ready("b", "small", job("y", 4, time.Hour))
			s.ready("c", "small")
			s.ready("d", "small")
		}, "cordon c, cordon d, cordon a"},
		{"none may be unavailable", func(s *scene) {
			s.c.MaxUnavailable = intstr.FromInt32(0)
			s.ready("a", "small", x)
			s.ready("b", "small", x)
		}, "cordon a"},
		{"one is being drained", func(s *scene) {
			s.c.MaxUnavailable = intstr.FromInt32(1)
			s.drained("a", "small", minute, x)
			s.ready("b", "small", x)
		}, "ask a"},
		{"a pod has no room elsewhere", func(s *scene) { s.drained("a", "small", minute, x) }, "ask a"},
		{"a pod does not leave", func(s *scene) { s.drained("a", "small", time.Hour, x).Pods[0].Stays = "it must not" }, "ask a"},
		{"a pod waits for the room", func(s *scene) {
			s.drained("a", "small", minute)
			s.pending(job("p", 4, time.Hour))
		}, "release a"},
		{"it was cordoned just now", func(s *scene) { s.drained("a", "small", releaseDelay-1) }, ""},
		{"another program drains it", func(s *scene) { s.ready("a", "small", x).NodeState.Drained = true }, ""},
		{"its flavor is kept", func(s *scene) {
			s.ready("a", "small", x)
			s.machine("b", "small", minute)
			s.flavor("small").Kept = true
		}, ""},
		{"it may not act", func(s *scene) {
			s.ready("a", "small", x)
			s.machine("b", "small", minute)
			s.c.Act = false
		}, ""},
	} {
		s := newScene()
		s.c.Retire = true
		tc.set(s)
		a := s.round()
		if got := strings.Join(does(&a), ", "); got != tc.want {
			t.Errorf("%s: done is %q, want %q", tc.name, got, tc.want)
		}
		if a.Wake <= 0 || a.Wake > drainPoll {
			t.Errorf("%s: the next round is due in %v", tc.name, a.Wake)
		}
	}
}

// TestNodesAreCordonedWhenTheirMachinesAreAboutToBeTaken, even if no machine may be drained.
func TestNodesAreCordonedWhenTheirMachinesAreAboutToBeTaken(t *testing.T) {
	fixed := job("fixed", 1, time.Hour)
	fixed.Repeats, fixed.Fixed, fixed.Ran = true, true, 3*minute
	moved := job("moved", 1, time.Hour)
	moved.Ways, moved.Ran = cluster.Ways(1<<cluster.Migrate), 9*minute
	for _, tc := range []struct {
		name    string
		set     func(s *scene, m *Machine)
		cordons bool
	}{
		{"it is to be drained", func(*scene, *Machine) {}, true},
		{"there is no notice", func(_ *scene, m *Machine) { m.NodeState.Notice = "" }, false},
		{"the node is gone", func(_ *scene, m *Machine) { m.NodeState = nil }, false},
		{"the node is being deleted", func(_ *scene, m *Machine) { m.NodeState.Deleted = true }, false},
		{"the node is drained already", func(_ *scene, m *Machine) { m.NodeState.Drained = true }, false},
		{"the machine is being released", func(_ *scene, m *Machine) { m.Leaving = true }, false},
		{"the flavor is kept", func(s *scene, _ *Machine) { s.flavor("large").Kept = true }, false},
		{"the fleet does not act", func(s *scene, _ *Machine) { s.c.Act = false }, false},
	} {
		s := newScene()
		s.c.MaxUnavailable = intstr.FromInt32(0)
		m := s.ready("a", "large", fixed, moved)
		m.NodeState.Notice = "taint t:NoSchedule"
		s.node("a").Phase = cluster.Leaving
		tc.set(s, m)
		a := s.round()
		if got := len(a.Cordon) == 1; got != tc.cordons || len(a.Events) == 1 != tc.cordons {
			t.Errorf("%s: cordons %v, events %v", tc.name, a.Cordon, a.Events)
		}
		if len(a.Orders) > 0 {
			t.Errorf("%s: orders %v", tc.name, a.Orders)
		}
		if !tc.cordons {
			continue
		}
		const want = "the machine of node a is about to be taken: it has taint t:NoSchedule. Its pods leave; " +
			"1 pod cannot be moved with its state: 3m0s of work is lost unless it ends within the notice, 3m0s of it in pod fixed"
		if a.Events[0].Message != want {
			t.Errorf("%s: it says\n%s\nwant\n%s", tc.name, a.Events[0].Message, want)
		}
	}
}

// TestADrainBeforeAMachineIsTakenIsNotCancelled, for whatever reason others are.
func TestADrainBeforeAMachineIsTakenIsNotCancelled(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(s *scene, d *Draining)
		want string
	}{
		{"a pod stays", func(_ *scene, d *Draining) { d.Pods[0].Stays = "it must not be moved" }, "asks"},
		{"pods are late", func(_ *scene, d *Draining) { d.Since = midnight.Add(-time.Hour) }, "asks"},
		{"there is no room", func(s *scene, _ *Draining) { s.node("a").Pods = podsOf(job("p", 9, time.Hour)) }, "asks"},
		{"the flavor has its minimum", func(s *scene, d *Draining) { s.flavor("large").Min, d.Pods, s.node("a").Pods = 1, nil, nil }, "releases"},
		{"a pending pod would have room", func(s *scene, d *Draining) {
			d.Pods, s.node("a").Pods = nil, nil
			s.pending(service("p", 1))
		}, "releases"},
	} {
		for _, notice := range []string{"", "taint t:NoSchedule"} {
			s := newScene()
			d := s.drained("a", "large", minute, job("p", 1, time.Hour))
			d.Notice = notice
			tc.set(s, d)
			a := s.round()
			got := ""
			switch {
			case len(a.Uncordon) > 0:
				got = "uncordons"
			case len(a.Ask) > 0:
				got = "asks"
			case len(a.Release) > 0:
				got = "releases"
			}
			if is := got == tc.want; is != (notice != "") {
				t.Errorf("%s, with notice %q: it %s", tc.name, notice, got)
			}
		}
	}
}
