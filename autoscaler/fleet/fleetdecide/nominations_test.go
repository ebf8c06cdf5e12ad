package fleetdecide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
)

// sighting is an observation of machines at a time after midnight.
type sighting struct {
	ordered  map[string]int // desired number, by flavor
	machines []Machine
}

// nominated returns the nominated pods at a time after midnight.
func nominatedAt(m *Memory, now time.Duration, l sighting, pods ...string) string {
	s := newScene()
	for flavor, n := range l.ordered {
		s.flavor(flavor).Ordered = n
	}
	s.Machines = l.machines
	for _, p := range pods {
		s.pending(ago(job(p, 4, time.Hour), now))
	}
	r := newPlanning(&s.Observation, m, s.c, midnight.Add(now))
	r.learn()
	r.nominate()
	got := ""
	for _, p := range r.state.Pending {
		if p.Nominated {
			got += p.Name
		}
	}
	return got
}

// orders makes a fleet order machines of a flavor for pods, as decided by its last round.
func orders(m *Memory, now time.Duration, flavor string, count int, pods ...string) {
	planned := nomination{flavor: flavor, count: count, pods: map[string]bool{}}
	for _, p := range pods {
		planned.pods[p] = true
	}
	m.nominations.planned = map[string]nomination{flavor: planned}
	m.Ordered(flavor, midnight.Add(now))
}

// TestAPodIsNominatedUntilItsOwnMachineHasComeAndTheSchedulerHadTime has pods p, q and s, whose machines take two
// minutes and were ordered a minute apart, and r without a machine.
func TestAPodIsNominatedUntilItsOwnMachineHasComeAndTheSchedulerHadTime(t *testing.T) {
	on := func(name, flavor string, made time.Duration) Machine {
		return Machine{Machine: provider.Machine{Name: name, Flavor: flavor, Ordered: midnight.Add(made)}, Key: "machine " + name, OnOrder: true}
	}
	come := func(m Machine) Machine {
		m.Key, m.OnOrder, m.Node = m.Name, false, m.Name
		m.NodeState = &NodeState{Name: m.Name, Created: m.Ordered, Changed: m.Ordered, Ready: true}
		return m
	}
	starting := func(m Machine) Machine {
		m = come(m)
		m.Key, m.OnOrder, m.Startup = "machine "+m.Name, true, "agent:NoSchedule"
		return m
	}
	small, large, later := on("s", "small", 20*time.Second), on("l", "large", minute), on("t", "small", 2*minute)
	both, three := map[string]int{"small": 1, "large": 1}, map[string]int{"small": 2, "large": 1}
	m := newScene().m
	nominatedAt(m, 0, sighting{}, "p")
	orders(m, 0, "small", 1, "p")
	for _, step := range []struct {
		what     string
		now      time.Duration
		sighting sighting
		want     string
	}{
		{"none has been made", 10 * time.Second, sighting{map[string]int{"small": 1}, nil}, "p"},
		{"it is made late, as on a busy machine", 30 * time.Second, sighting{map[string]int{"small": 1}, []Machine{small}}, "p"},
		{"another is ordered", minute, sighting{both, []Machine{small}}, "pq"},
		{"both are on order", 90 * time.Second, sighting{both, []Machine{small, large}}, "pq"},
		{"a third is ordered", 2 * minute, sighting{three, []Machine{small, large, later}}, "pqs"},
		{"the first has come", 150 * time.Second, sighting{three, []Machine{come(small), large, later}}, "pqs"},
		{"the scheduler had its time", 160 * time.Second, sighting{three, []Machine{come(small), large, later}}, "qs"},
		{"the second has started, with a taint", 300 * time.Second, sighting{three, []Machine{come(small), starting(large), later}}, "qs"},
		{"it is very late", 310 * time.Second, sighting{three, []Machine{come(small), starting(large), later}}, "qs"},
		{"the taint has gone", 315 * time.Second, sighting{three, []Machine{come(small), come(large), later}}, "qs"},
		{"the scheduler had its time again", 325 * time.Second, sighting{three, []Machine{come(small), come(large), later}}, "s"},
		{"the third is very late", 370*time.Second - 1, sighting{three, []Machine{come(small), come(large), later}}, "s"},
		{"too late", 370 * time.Second, sighting{three, []Machine{come(small), come(large), later}}, ""},
	} {
		switch step.now {
		case minute:
			orders(m, step.now, "large", 1, "q")
		case 2 * minute:
			orders(m, step.now, "small", 1, "s")
		}
		if got := nominatedAt(m, step.now, step.sighting, "p", "q", "r", "s"); got != step.want {
			t.Errorf("%s: nominated are %q, want %q", step.what, got, step.want)
		}
	}
	if n := len(m.nominations.orders); n > 0 {
		t.Errorf("%d orders are remembered whose pods are not nominated any more", n)
	}
}

// TestAPodWhoseRoomWasGivenAwayGetsAnotherMachineAtOnce has two pods with an ordered machine, and decides a second
// after the machine has come.
func TestAPodWhoseRoomWasGivenAwayGetsAnotherMachineAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		taken []cluster.Pod
		want  []string
	}{
		"nobody has come yet":              {nil, []string{}},
		"one is still to be bound":         {[]cluster.Pod{job("p", 2, time.Hour)}, []string{}},
		"another pod has taken their room": {[]cluster.Pod{job("other", 4, time.Hour)}, []string{"order small 1 to 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.c.Empty = false
			s.m.nominations.known, s.m.nominations.last = map[string]bool{}, time.Hour
			orders(s.m, 0, "small", 1, "p", "q")
			for _, p := range []string{"p", "q"} {
				if !slices.ContainsFunc(tc.taken, func(t cluster.Pod) bool { return t.Name == p }) {
					s.pending(ago(job(p, 2, time.Hour), time.Second))
				}
			}
			s.ready("a", "small", tc.taken...)
			a := s.round()
			check(t, a, tc.want...)
		})
	}
}

// TestWhatAnEarlierProcessOrderedIsAwaitedWhileMachinesComeAndShortlyAfter has a pod that was pending when the process
// before this one ended; its machine could take long.
func TestWhatAnEarlierProcessOrderedIsAwaitedWhileMachinesComeAndShortlyAfter(t *testing.T) {
	coming := Machine{Machine: provider.Machine{Name: "a", Flavor: "small", Ordered: midnight}, Key: "machine a", OnOrder: true}
	come := Machine{Machine: coming.Machine, Key: "a", NodeState: &NodeState{Name: "a", Created: midnight, Changed: midnight, Ready: true}}
	for name, tc := range map[string]struct {
		machine Machine
		after   time.Duration
		want    string
	}{
		"while a machine is on order":    {coming, 2 * binding, "p"},
		"as soon as it has come":         {come, 0, "p"},
		"until the scheduler had time":   {come, binding - time.Second, "p"},
		"no longer, if it is not for it": {come, binding, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newScene().m
			m.Inherit(midnight, midnight.Add(time.Hour))
			sight := sighting{map[string]int{"small": 1}, []Machine{tc.machine}}
			nominatedAt(m, time.Second, sight, "p")
			if got := nominatedAt(m, time.Second+tc.after, sight, "p"); got != tc.want {
				t.Errorf("nominated is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestMachinesThatAreAbandonedEndTheNominationsForTheirFlavorAlone(t *testing.T) {
	m := newScene().m
	nominatedAt(m, 0, sighting{})
	orders(m, 0, "small", 1, "p")
	orders(m, 0, "large", 1, "q")
	m.Abandoned([]Abandonment{{Avoidance: Avoidance{Flavor: "small"}, Release: []string{"a"}, Want: 1}})
	if got := nominatedAt(m, time.Second, sighting{map[string]int{"small": 0, "large": 1}, nil}, "p", "q"); got != "q" {
		t.Errorf("nominated are %q, want q", got)
	}
}

// TestNominationsAreThoseOfAFleetThatIsPlayed lets machines be ordered, created and come at random times, and compares
// with a simulation that knows the order of each machine.
func TestNominationsAreThoseOfAFleetThatIsPlayed(t *testing.T) {
	type order struct {
		pod         string
		flavor      string
		at          time.Duration
		made, comes []time.Duration // of each machine
	}
	rapid.Check(t, func(t *rapid.T) {
		seconds := func(label string, most int) time.Duration {
			return time.Duration(rapid.IntRange(1, most).Draw(t, label)) * time.Second
		}
		m := newScene().m
		nominatedAt(m, 0, sighting{})
		var all []order
		var pods []string
		last := map[string]time.Duration{} // when the last machine of a flavor was created
		for i := range rapid.IntRange(1, 5).Draw(t, "orders") {
			o := order{pod: string(rune('a' + i)), flavor: rapid.SampledFrom([]string{"small", "large"}).Draw(t, "flavor")}
			o.at = time.Duration(i) * 30 * time.Second
			for range rapid.IntRange(1, 3).Draw(t, "machines") {
				made := max(o.at, last[o.flavor]) + seconds("made", 20) // one after the other
				last[o.flavor] = made
				o.made, o.comes = append(o.made, made), append(o.comes, made+seconds("comes", 150))
			}
			all, pods = append(all, o), append(pods, o.pod)
		}
		settled := map[string]time.Duration{} // since when all machines of an order have been observed to have come
		for now := time.Duration(0); now < 8*minute; now += time.Second {
			l := sighting{map[string]int{}, nil}
			var want []string
			for i := range all {
				o := &all[i]
				if o.at == now {
					orders(m, now, o.flavor, len(o.made), o.pod)
				}
				if o.at > now {
					continue
				}
				l.ordered[o.flavor] += len(o.made)
				for j, made := range o.made {
					if made > now {
						continue
					}
					name := fmt.Sprintf("%s%d", o.pod, j)
					machine := Machine{Machine: provider.Machine{Name: name, Flavor: o.flavor, Ordered: midnight.Add(made)}, Key: "machine " + name, OnOrder: o.comes[j] > now}
					if !machine.OnOrder {
						machine.Key = name
						machine.NodeState = &NodeState{Name: name, Created: machine.Ordered, Changed: machine.Ordered, Ready: true}
					}
					l.machines = append(l.machines, machine)
				}
				if slices.Max(o.comes) <= now && settled[o.pod] == 0 {
					settled[o.pod] = now
				}
				if now < o.at+NominatedFor(2*minute) && (settled[o.pod] == 0 || now < settled[o.pod]+10*time.Second) {
					want = append(want, o.pod)
				}
			}
			if got := nominatedAt(m, now, l, pods...); got != strings.Join(want, "") {
				t.Fatalf("after %v nominated are %q, want %q of %+v", now, got, want, all)
			}
		}
	})
}

func TestHowOftenMachinesWereOrderedForAPodIsRememberedWhileItWaits(t *testing.T) {
	m := newScene().m
	orders(m, 0, "small", 1, "p", "q")
	orders(m, minute, "large", 1, "p")
	nominatedAt(m, minute, sighting{}, "p", "q")
	if diff := cmp.Diff(map[string]int{"p": 2, "q": 1}, m.nominations.times); diff != "" {
		t.Errorf("orders by pod (-want +got):\n%s", diff)
	}
	nominatedAt(m, 2*minute, sighting{}, "q")
	if diff := cmp.Diff(map[string]int{"q": 1}, m.nominations.times); diff != "" {
		t.Errorf("orders by pod, when p waits no more (-want +got):\n%s", diff)
	}
}
