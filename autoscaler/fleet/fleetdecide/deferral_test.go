package fleetdecide

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/fixtures/states"
)

// dollarsByTheSecond is a state in which each machine costs 100 micro-dollars a second, billed by started minutes, and
// takes two minutes.
func dollarsByTheSecond(pending []cluster.Pod, nodes ...cluster.Node) *cluster.State {
	s := quiet(pending, nodes...)
	s.BillingPeriod = minute
	for i := range s.Flavors {
		s.Flavors[i].MicroDollarsPerHour = 360_000
	}
	for i := range s.Nodes {
		s.Nodes[i].MicroDollarsPerHour = 360_000
	}
	return s
}

// waitingFor lets pods wait for the given time beyond the lag of a machine.
func waitingFor(most time.Duration) FleetOptions {
	o := all()
	o.MaxWait = most
	return o
}

// TestPodsWaitForRoomWhereThatIsCheaper uses values computed by hand. A machine bought for an hour is billed for 62
// min, or 372,000 micro-dollars.
func TestPodsWaitForRoomWhereThatIsCheaper(t *testing.T) {
	hour := job("p", 6, time.Hour)
	guessed := full("a", 5*minute)
	guessed.Pods[0].Guessed = true
	huge := changedNode(full("a", 5*minute), func(n *cluster.Node) { n.Capacity = size(20, 20); n.Pods[0].Size = size(20, 20) })
	beside := node("a", job("x", 6, 5*minute), job("y", 4, 2*time.Hour))
	small := changedNode(node("b"), func(n *cluster.Node) { n.Phase, n.Due, n.Capacity = cluster.Ordered, minute, size(5, 5) })
	tests := []struct {
		name        string
		s           *cluster.State
		most        time.Duration
		buys        []string
		waits       []string
		now, then   int64
		room, until time.Duration
	}{
		{"the machine that is there is needed for an hour more", dollarsByTheSecond(podsOf(hour), full("a", 5*minute)), 10 * minute,
			[]string{}, []string{"p"}, 372_000, 360_000, 5 * minute, 12 * minute},
		{"nobody allows for it", dollarsByTheSecond(podsOf(hour), full("a", 5*minute)), 0, []string{"large: p"}, nil, 0, 0, 0, 0},
		{"a negative time allows for nothing", dollarsByTheSecond(podsOf(hour), full("a", 5*minute)), -minute, []string{"large: p"}, nil, 0, 0, 0, 0},
		{"the room comes at the last moment", dollarsByTheSecond(podsOf(hour), full("a", 5*minute)), 3 * minute,
			[]string{}, []string{"p"}, 372_000, 360_000, 5 * minute, 5 * minute},
		{"the room comes too late", dollarsByTheSecond(podsOf(hour), full("a", 5*minute)), 3*minute - 1, []string{"large: p"}, nil, 0, 0, 0, 0},
		{"what it has waited counts", dollarsByTheSecond(podsOf(ago(hour, 7*minute)), full("a", 5*minute)), 10 * minute,
			[]string{}, []string{"p"}, 372_000, 360_000, 5 * minute, 5 * minute},
		{"it has waited for too long", dollarsByTheSecond(podsOf(ago(hour, 7*minute+1)), full("a", 5*minute)), 10 * minute, []string{"large: p"}, nil, 0, 0, 0, 0},
		{"a clock that is behind lets no pod wait for longer", dollarsByTheSecond(podsOf(ago(hour, -time.Hour)), full("a", 5*minute)), 10 * minute,
			[]string{}, []string{"p"}, 372_000, 360_000, 5 * minute, 12 * minute},
		{"the machine is needed for longer anyway", dollarsByTheSecond(podsOf(hour), beside), 10 * minute, []string{}, []string{"p"}, 372_000, 0, 5 * minute, 12 * minute},
		{"a machine at twice the price", dollarsByTheSecond(podsOf(hour), full("a", 5*minute)), 10 * minute, []string{"large: p"}, nil, 0, 0, 0, 0},
		{"both cost the same", dollarsByTheSecond(podsOf(hour), full("a", 5*minute)), 10 * minute, []string{"large: p"}, nil, 0, 0, 0, 0},
		{"nobody knows when the other ends", dollarsByTheSecond(podsOf(hour), guessed), 10 * minute, []string{"large: p"}, nil, 0, 0, 0, 0},
		{"services are compared by a day", dollarsByTheSecond(podsOf(service("p", 6)), node("a", job("x", 6, 5*minute), service("y", 4))), 10 * minute,
			[]string{}, []string{"p"}, 8_652_000, 30_000, 5 * minute, 12 * minute},
		{"the room is for one of two", dollarsByTheSecond(podsOf(hour, job("q", 6, time.Hour)), full("a", 5*minute)), 10 * minute,
			[]string{"large: q"}, []string{"p"}, 744_000, 732_000, 5 * minute, 12 * minute},
		{"no machine that can be bought holds it", dollarsByTheSecond(podsOf(job("p", 12, time.Hour)), huge), 10 * minute, []string{}, nil, 0, 0, 0, 0},
		{"a machine is bought for it already", dollarsByTheSecond(podsOf(changedPod(hour, func(p *cluster.Pod) { p.Nominated = true })), full("a", 5*minute)), 10 * minute,
			[]string{}, nil, 0, 0, 0, 0},
		{"the room is there in time", dollarsByTheSecond(podsOf(hour), full("a", minute)), 10 * minute, []string{}, nil, 0, 0, 0, 0},
		{"a machine is on order that is too small for it", dollarsByTheSecond(podsOf(hour), full("a", 5*minute), small), 10 * minute,
			[]string{}, []string{"p"}, 372_000, 360_000, 5 * minute, 12 * minute},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			switch tc.name {
			case "a machine at twice the price":
				tc.s.Nodes[0].MicroDollarsPerHour *= 2
			case "both cost the same":
				tc.s.Lag = 0
			}
			before := cloned(tc.s)
			d := Fleet(tc.s, waitingFor(tc.most), mover(), midnight)
			if diff := cmp.Diff(tc.buys, planned(&d.Plan.Plan)); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.s); diff != "" {
				t.Errorf("the cluster was modified:\n%s", diff)
			}
			if tc.waits == nil {
				if d.Deferral != nil {
					t.Errorf("%+v waits", d.Deferral)
				}
				return
			}
			want := &Deferral{Pods: tc.waits, BuyNow: tc.now, Wait: tc.then, Room: tc.room, Until: tc.until}
			if diff := cmp.Diff(want, d.Deferral); diff != "" {
				t.Errorf("what waits (-want +got):\n%s", diff)
			}
			if d.Wake <= 0 || d.Wake > tc.until || d.Asked != len(tc.buys) || d.Served != 0 {
				t.Errorf("it wakes in %v, %d pods are asked for and %d served", d.Wake, d.Asked, d.Served)
			}
		})
	}
}

func changedPod(p cluster.Pod, change func(*cluster.Pod)) cluster.Pod { change(&p); return p }

func TestADeferralSaysWhatItSaves(t *testing.T) {
	d := Fleet(dollarsByTheSecond(podsOf(job("p", 6, time.Hour)), full("a", 5*minute)), waitingFor(10*minute), mover(), midnight).Deferral
	if d.Saves() != 12_000 {
		t.Errorf("it saves %d micro-dollars, want 12000", d.Saves())
	}
	const want = "1 pod waits for room that becomes free: the expected cost until all machines are empty again is $0.36, and $0.372 if machines were bought now"
	if d.Reason() != want {
		t.Errorf("it says %q, want %q", d.Reason(), want)
	}
}

// TestAMachineIsBoughtForAPodThatHasWaitedForLongEnough has an overdue job, which is always expected to end within a
// minute.
func TestAMachineIsBoughtForAPodThatHasWaitedForLongEnough(t *testing.T) {
	waited := func(w time.Duration) []cluster.Pod { return podsOf(ago(job("p", 6, time.Hour), w)) }
	never := full("a", 0)
	limited := waitingFor(10 * minute)
	limited.Limits.MilliCPU = new(int64(1))
	orderedTwice := waitingFor(0)
	orderedTwice.Orders = map[string]int{"p": 2}
	decidedFor := func(p time.Duration) FleetOptions {
		o := waitingFor(0)
		o.Decided = map[string]time.Duration{"p": p}
		return o
	}
	exhausted := waitingFor(10 * minute)
	exhausted.Exhausted = "the limit is reached"
	tests := []struct {
		name string
		s    *cluster.State
		o    FleetOptions
		buys []string
	}{
		{"not yet", dollarsByTheSecond(waited(12*minute-1), never), waitingFor(10 * minute), []string{}},
		{"now", dollarsByTheSecond(waited(12*minute), never), waitingFor(10 * minute), []string{"large: p"}},
		{"it has waited for less long than a machine takes", dollarsByTheSecond(waited(2*minute-1), never), waitingFor(0), []string{}},
		{"it has waited for as long as a machine takes", dollarsByTheSecond(waited(2*minute), never), waitingFor(0), []string{"large: p"}},
		{"machines were ordered for it twice, and it may wait for longer", dollarsByTheSecond(waited(14*minute+2*binding-1), never), orderedTwice, []string{}},
		{"machines were ordered for it twice, and it has waited for longer", dollarsByTheSecond(waited(14*minute+2*binding), never), orderedTwice, []string{"large: p"}},
		{"room comes free within half the time of a machine", dollarsByTheSecond(waited(2*minute), full("a", minute-1)), waitingFor(0), []string{}},
		{"room comes free later than that", dollarsByTheSecond(waited(2*minute), full("a", minute)), waitingFor(0), []string{"large: p"}},
		{"the longer it has waited, the sooner", dollarsByTheSecond(waited(4*minute), full("a", minute/2-1)), waitingFor(0), []string{}},
		{"and no later", dollarsByTheSecond(waited(4*minute), full("a", minute/2)), waitingFor(0), []string{"large: p"}},
		{"a machine is on its way that does not hold it", dollarsByTheSecond(waited(2*minute), due(minute, node("b", job("y", 5, time.Hour))), never), waitingFor(0), []string{}},
		{"that is no reason to wait for twice as long", dollarsByTheSecond(waited(4*minute), due(minute, node("b", job("y", 5, time.Hour))), never), waitingFor(0), []string{"large: p"}},
		{"it has been decided about for less long", dollarsByTheSecond(waited(2*minute), never), decidedFor(2*minute - 1), []string{}},
		{"it has been decided about for so long", dollarsByTheSecond(waited(3*minute), never), decidedFor(2 * minute), []string{"large: p"}},
		{"a machine was bought for it", dollarsByTheSecond(podsOf(changedPod(waited(12 * minute)[0], func(p *cluster.Pod) { p.Nominated = true })), never), waitingFor(10 * minute), []string{}},
		{"a machine is on its way that holds it", dollarsByTheSecond(waited(12*minute), due(minute, node("b")), never), waitingFor(10 * minute), []string{}},
		{"it has room now", dollarsByTheSecond(waited(12*minute), node("b"), never), waitingFor(10 * minute), []string{}},
		{"limits allow for no machine", dollarsByTheSecond(waited(12*minute), never), limited, []string{}},
		{"a limit is reached", dollarsByTheSecond(waited(12*minute), never), exhausted, []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := Fleet(tc.s, tc.o, mover(), midnight)
			if diff := cmp.Diff(tc.buys, planned(&d.Plan.Plan)); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
			if len(d.Plan.Unplaceable) > 0 || d.Asked != len(tc.buys) || d.Asked+d.Served != len(tc.s.Pending) || d.Deferral != nil {
				t.Errorf("%v find no machine, %d pods are asked for and %d served", d.Plan.Unplaceable, d.Asked, d.Served)
			}
			if tc.name == "not yet" && d.Wake != 1 {
				t.Errorf("it wakes in %v, when a machine is to be bought in 1ns", d.Wake)
			}
		})
	}
}

// TestAPodWhosePlaceDependsOnOthersDoesNotTakeRoomThatOthersWaitFor has a pod that needs a host port. A tenth of a
// machine is free for it, which the other pod also needs if it is to wait.
func TestAPodWhosePlaceDependsOnOthersDoesNotTakeRoomThatOthersWaitFor(t *testing.T) {
	port := job("c", 1, time.Hour)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}},
	}}}}
	var err error
	if port.Demands, err = constraint.NewCompiler(nil).Compile(pod); err != nil {
		t.Fatal(err)
	}
	s := dollarsByTheSecond(podsOf(port, job("p", 7, time.Hour)), node("a", job("x", 6, 5*minute), job("y", 3, 2*time.Hour)))
	if !s.Coupled(everyPod)[port.Demands] {
		t.Fatal("its place does not depend on others")
	}
	d := Fleet(s, waitingFor(10*minute), mover(), midnight)
	if diff := cmp.Diff([]string{"large: p"}, planned(&d.Plan.Plan)); diff != "" || d.Deferral != nil {
		t.Errorf("machines (-want +got):\n%s\nand %+v waits, although a machine for the other costs as much", diff, d.Deferral)
	}
	s.Nodes[0].Pods[1].Size = size(2, 2) // so that there is room for both
	s.Pending[1].Size = size(7, 7)
	s.Flavors[1].MicroDollarsPerHour /= 2 // and the smaller one costs less
	d = Fleet(s, waitingFor(10*minute), mover(), midnight)
	if diff := cmp.Diff([]string{"small: c"}, planned(&d.Plan.Plan)); diff != "" || d.Deferral == nil || d.Deferral.Saves() != 186_000 {
		t.Errorf("machines (-want +got):\n%s\nand %+v waits", diff, d.Deferral)
	}
}

// TestARoundComesWhenAPodHasWaitedForLongEnough runs rounds, each when the one before requested it, while a job runs
// for much longer than expected.
func TestARoundComesWhenAPodHasWaitedForLongEnough(t *testing.T) {
	const most, ends = 10 * minute, 7 * minute
	deferred := 0
	for waited := time.Duration(0); waited <= 12*minute; {
		s := dollarsByTheSecond(podsOf(ago(job("p", 6, time.Hour), waited)), full("a", max(0, ends-waited)))
		d := Fleet(s, waitingFor(most), mover(), midnight.Add(waited))
		if bought, late := len(d.Plan.Machines) > 0, waited >= 12*minute; bought != late {
			t.Fatalf("when it has waited for %v, %v are bought", waited, planned(&d.Plan.Plan))
		}
		if d.Deferral != nil {
			deferred++
		}
		if waited == 12*minute {
			break
		}
		if d.Wake <= 0 || waited+d.Wake > 12*minute {
			t.Fatalf("when it has waited for %v, it is checked again in %v", waited, d.Wake)
		}
		waited += min(d.Wake, 30*time.Second)
	}
	if deferred == 0 {
		t.Error("it never waited for longer than a machine takes")
	}
}

// eachQueue checks states in which pods have waited for a while, more or less than their patience. In half of them room
// must become free.
func eachQueue(t *testing.T, check func(t rapid.TB, s *cluster.State, o FleetOptions)) {
	t.Helper()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		check(seeded{t, seed}, queue(seed), waitingFor(time.Duration(1+r.Int64N(int64(15*minute)))))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := states.Draw(t, true)
		drawGuesses(t, s)
		for i := range s.Pending {
			s.Pending[i].Waited = time.Duration(rapid.Int64Range(0, int64(20*minute)).Draw(t, "waited"))
			s.Pending[i].Nominated = rapid.IntRange(0, 4).Draw(t, "nominated") == 0
		}
		check(t, s, waitingFor(time.Duration(rapid.Int64Range(1, int64(15*minute)).Draw(t, "most"))))
	})
}

// seeded is a test that reports the seed with which it failed.
type seeded struct {
	*testing.T
	seed uint64
}

// Fatalf implements rapid.TB.
func (s seeded) Fatalf(format string, args ...any) {
	s.Helper()
	s.T.Fatalf("seed %d: "+format, append([]any{s.seed}, args...)...)
}

// queue is a cluster of full nodes, one of them without known ends, and pending pods. Its distribution is uniform,
// unlike that of rapid.
func queue(seed uint64) *cluster.State {
	r := rand.New(rand.NewPCG(seed, 2))
	within := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
	s := state(nil)
	s.BillingPeriod = []time.Duration{0, minute, 10 * minute}[r.IntN(3)]
	for i := range s.Flavors {
		s.Flavors[i].MicroDollarsPerHour *= 10_000
	}
	for i := range 4 {
		n := node(fmt.Sprintf("n%d", i))
		n.MicroDollarsPerHour, n.Age = 10_000*(1+r.Int64N(100)), within(time.Hour)
		for j, share := range []int64{6, 4} {
			p := job(fmt.Sprintf("n%d-p%d", i, j), share, within(15*minute))
			p.Guessed = i == 3
			n.Pods = append(n.Pods, p)
		}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range 1 + r.IntN(6) {
		p := ago(job(fmt.Sprintf("p%d", i), 1+r.Int64N(10), within(2*time.Hour)), within(15*minute))
		p.Nominated, p.Guessed = r.IntN(6) == 0, r.IntN(6) == 0
		if r.IntN(6) == 0 {
			p.Class, p.Runtime, p.Guessed = class.Service, 0, false
		}
		s.Pending = append(s.Pending, p)
	}
	return s
}

// namesOf returns the pods of a plan that have a place.
func namesOf(p *purchase.Plan) map[string]bool {
	names := map[string]bool{}
	for _, a := range p.Assignments {
		names[a.Pod] = true
	}
	return names
}

func TestWithoutATimeToWaitMachinesAreBoughtForAllThatAreUnschedulableInTime(t *testing.T) {
	eachQueue(t, func(t rapid.TB, s *cluster.State, o FleetOptions) {
		s.Recent, s.Observed, o.MaxWait = nil, 0, 0
		s.Pending = slices.DeleteFunc(s.Pending, func(p cluster.Pod) bool { return p.Waited >= s.Lag }) // see TestNoPodWaitsForLongerThanItMay
		d := Fleet(cloned(s), o, mover(), midnight)
		if d.Deferral != nil {
			t.Fatalf("%+v waits", d.Deferral)
		}
		placed := namesOf(&d.Plan.Plan)
		for _, u := range d.Plan.Unplaceable {
			placed[u.Pod] = true
		}
		for _, w := range newForecast(s, untilReady(s), nil).run() {
			if !w.pod.Nominated && !placed[w.pod.Name] {
				t.Fatalf("pod %s has no machine, and is not said to have none", w.pod.Name)
			}
		}
	})
}

// TestWaitingKeepsItsPromises compares decisions with those made without waiting.
func TestWaitingKeepsItsPromises(t *testing.T) {
	waited := 0
	eachQueue(t, func(t rapid.TB, s *cluster.State, o FleetOptions) {
		without := o
		without.MaxWait = 0
		d, base := Fleet(cloned(s), o, mover(), midnight), Fleet(cloned(s), without, mover(), midnight)
		if d.Deferral == nil {
			if !slices.ContainsFunc(s.Pending, func(p cluster.Pod) bool { return p.Waited >= s.Lag }) {
				if diff := cmp.Diff(base, d, cmpopts.IgnoreUnexported(FleetDecision{}), cmpopts.IgnoreFields(FleetDecision{}, "Wake")); diff != "" {
					t.Fatalf("although nothing waits, the decision is another (-without +with):\n%s", diff)
				}
			}
			return
		}
		if slices.ContainsFunc(s.Pending, func(p cluster.Pod) bool { return p.Waited >= s.Lag }) {
			return // without waiting, machines are bought for them although room becomes free
		}
		waited++
		if d.Deferral.Saves() <= 0 {
			t.Fatalf("nothing is saved by %+v", d.Deferral)
		}
		placed, basePlaced := namesOf(&d.Plan.Plan), namesOf(&base.Plan.Plan)
		for _, u := range d.Plan.Unplaceable {
			if basePlaced[u.Pod] {
				t.Fatalf("pod %s would have had a machine, and has none", u.Pod)
			}
		}
		until := time.Duration(1<<63 - 1)
		for _, p := range s.Pending {
			if !slices.Contains(d.Deferral.Pods, p.Name) {
				continue
			}
			left := s.Lag + o.MaxWait - p.Waited
			until = min(until, left)
			if left < d.Deferral.Until || left <= 0 || p.Nominated || placed[p.Name] || !basePlaced[p.Name] {
				t.Fatalf("pod %+v waits, which would have had a machine: %t", p, basePlaced[p.Name])
			}
		}
		if d.Deferral.Until != until || d.Wake <= 0 || d.Wake > until {
			t.Fatalf("a machine is bought in %v at the latest, want %v; it wakes in %v", d.Deferral.Until, until, d.Wake)
		}
		if micros, _ := Total(d.Terms); micros > d.Deferral.Wait {
			t.Fatalf("what is bought costs %d, and the whole %d", micros, d.Deferral.Wait)
		}
	})
	if waited == 0 {
		t.Error("no pod ever waited")
	}
}

// TestNoPodWaitsForLongerThanItMay checks pods that some machine holds, without limits.
func TestNoPodWaitsForLongerThanItMay(t *testing.T) {
	late := 0
	eachQueue(t, func(t rapid.TB, s *cluster.State, o FleetOptions) {
		d := Fleet(cloned(s), o, mover(), midnight)
		// A pod with room soon, or on a bought machine, does not count.
		soon := map[string]bool{}
		// Expected pods take no room from pending ones.
		known := *s
		known.Recent = nil
		f := newForecast(&known, untilReady(s), nil)
		f.note = func(at int, p *cluster.Pod, when time.Duration) {
			n := f.nodes[at].node
			soon[p.Name] = soon[p.Name] || when < roomWithin(s.Lag, s.Lag+o.MaxWait, p.Waited) || n.Phase == cluster.Ordered && when == n.Due
		}
		f.run()
		placed := namesOf(&d.Plan.Plan)
		for _, p := range s.Pending {
			held := slices.ContainsFunc(s.Flavors, func(f cluster.Flavor) bool { return p.Size.Fits(f.Size) && (p.Arch == "" || p.Arch == f.Arch) })
			most := s.Lag + o.MaxWait
			if inFlight(s) {
				most *= 2
			}
			if p.Waited < most || p.Nominated || soon[p.Name] || !held {
				continue
			}
			late++
			if !placed[p.Name] {
				t.Fatalf("pod %s has waited for %v, of %v at most, and no machine is bought for it", p.Name, p.Waited, s.Lag+o.MaxWait)
			}
		}
	})
	if late == 0 {
		t.Error("no pod ever waited for long enough")
	}
}

// TestPodsThatHaveWaitedHalfAsLongShareTheMachine has room become free for both pods, but too late.
func TestPodsThatHaveWaitedHalfAsLongShareTheMachine(t *testing.T) {
	for _, tc := range []struct {
		name string
		p, q time.Duration // how long each has waited, of two minutes at most
		buys []string
	}{
		{"both have waited for long enough", 2 * minute, 2 * minute, []string{"large: p, q"}},
		{"the other has waited for half as long", 2 * minute, minute, []string{"large: p, q"}},
		{"the other has waited for less", 2 * minute, minute - 1, []string{"large: p"}},
		{"none has waited for long enough", 2*minute - 1, 2*minute - 1, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pods := podsOf(ago(job("p", 5, time.Hour), tc.p), ago(job("q", 5, time.Hour), tc.q))
			d := Fleet(dollarsByTheSecond(pods, full("a", minute), full("b", minute)), waitingFor(0), mover(), midnight)
			if diff := cmp.Diff(tc.buys, planned(&d.Plan.Plan)); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOthersGetTheRoomThatALatePodNoLongerTakes has room for p or q become free in a minute, which is too late only for
// p.
func TestOthersGetTheRoomThatALatePodNoLongerTakes(t *testing.T) {
	pods := podsOf(ago(job("p", 5, time.Hour), 2*minute), job("q", 6, time.Hour))
	d := Fleet(dollarsByTheSecond(pods, full("a", minute)), waitingFor(0), mover(), midnight)
	if diff := cmp.Diff([]string{"large: p"}, planned(&d.Plan.Plan)); diff != "" || d.Served != 1 {
		t.Errorf("%d pods are served, want 1; machines (-want +got):\n%s", d.Served, diff)
	}
}

// TestAFleetIsMorePatientAfterEachOrder has a pod whose machine went to another pod. It may have room four minutes
// later than at first, when a job should have ended.
func TestAFleetIsMorePatientAfterEachOrder(t *testing.T) {
	m := newScene().m
	evaluate := func(now time.Duration, machines int) *scene {
		s := newScene()
		s.m = m
		for i := range machines {
			s.ready(fmt.Sprint("a", i), "large", job(fmt.Sprint("x", i), 10, 0))
		}
		s.pending(ago(job("p", 6, time.Hour), now))
		return s
	}
	for _, step := range []struct {
		waited   time.Duration
		machines int
		want     []string
	}{
		{0, 1, nil},
		{2*minute - 1, 1, nil},
		{2 * minute, 1, []string{"order large 1 to 2"}},
		{4 * minute, 2, nil},
		{6*minute + binding - 1, 2, nil},
		{6*minute + binding, 2, []string{"order large 2 to 3"}},
	} {
		a := Round(&evaluate(step.waited, step.machines).Observation, m, evaluate(step.waited, step.machines).c, midnight.Add(step.waited))
		if diff := cmp.Diff(append([]string{}, step.want...), does(&a)); diff != "" {
			t.Fatalf("after %v (-want +got):\n%s", step.waited, diff)
		}
		for _, o := range a.Orders {
			m.Ordered(o.Flavor, midnight.Add(step.waited))
		}
	}
}

// TestWhileMorePodsAreGatheredNoneIsDecidedAbout has a pod that is gathered with others for longer than the lag of a
// machine.
func TestWhileMorePodsAreGatheredNoneIsDecidedAbout(t *testing.T) {
	m := newScene().m
	at := func(waited, gather time.Duration) []string {
		s := newScene()
		s.m, s.Gather = m, gather
		s.ready("a", "large", job("x", 10, 0))
		s.pending(ago(job("p", 6, time.Hour), waited))
		a := Round(&s.Observation, m, s.c, midnight.Add(waited))
		return does(&a)
	}
	for _, step := range []struct {
		waited, gather time.Duration
		want           []string
	}{
		{0, 5 * minute, []string{}},
		{5 * minute, 0, []string{}},
		{7*minute - 1, 0, []string{}},
		{7 * minute, 0, []string{"order large 1 to 2"}},
	} {
		if diff := cmp.Diff(step.want, at(step.waited, step.gather)); diff != "" {
			t.Fatalf("after %v (-want +got):\n%s", step.waited, diff)
		}
	}
}

// TestLimitsAreNamedUnlessRoomIsExpected has a pod that has used up its patience, and limits that allow no machine.
func TestLimitsAreNamedUnlessRoomIsExpected(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ends  time.Duration
		limit bool
	}{{"room comes free in a minute", minute, false}, {"room comes free in an hour", time.Hour, true}} {
		t.Run(tc.name, func(t *testing.T) {
			o := waitingFor(0)
			o.Limits.MilliCPU = new(int64(1))
			d := Fleet(dollarsByTheSecond(podsOf(ago(job("p", 6, time.Hour), 2*minute)), full("a", tc.ends)), o, mover(), midnight)
			if d.limited() != tc.limit || d.Asked+d.Served != 1 || len(d.Plan.Machines) > 0 {
				t.Errorf("limits keep it waiting: %t, want %t; %+v", d.limited(), tc.limit, d.Plan)
			}
		})
	}
}
