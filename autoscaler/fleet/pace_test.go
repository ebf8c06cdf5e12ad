package fleet

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/text/dollars"
)

func TestAFleetRestsAsLongAsItsRoundTookUnlessPodsHaveBeenGathered(t *testing.T) {
	const ms = time.Millisecond
	at := epoch.Add
	for _, tc := range []struct {
		name string
		pace *pace
		due  time.Time
		want time.Duration
	}{
		{"the first", &pace{}, time.Time{}, 0},
		{"a quick one has just ended", &pace{began: at(-ms), ended: epoch}, time.Time{}, leastRest},
		{"one of 300 ms ended 100 ms ago", &pace{began: at(-400 * ms), ended: at(-100 * ms)}, time.Time{}, 200 * ms},
		{"one of a minute has just ended", &pace{began: at(-minute), ended: epoch}, time.Time{}, mostRest},
		{"one ended long ago", &pace{began: at(-minute), ended: at(-50 * second)}, time.Time{}, 0},
		{"the clock was ahead", &pace{began: at(time.Hour), ended: at(time.Hour)}, time.Time{}, mostRest},
		{"pods have been gathered meanwhile", &pace{began: at(-minute), ended: epoch}, at(-second), 0},
		{"pods are gathered during the rest", &pace{began: at(-second), ended: epoch}, at(10 * ms), 10 * ms},
		{"pods are gathered long after the rest", &pace{began: at(-200 * ms), ended: epoch}, at(minute), 200 * ms},
		{"pods are gathered soon after the rest", &pace{began: at(-200 * ms), ended: epoch}, at(350 * ms), 350 * ms},
		{"the last round began after pods had been gathered", &pace{began: at(-200 * ms), ended: epoch}, at(-201 * ms), 200 * ms},
		{"the last found that something had been changed", &pace{began: at(-minute), ended: epoch, again: true}, time.Time{}, 0},
	} {
		if got := tc.pace.wait(epoch, tc.due); got != tc.want {
			t.Errorf("%s: the next waits for %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestRoundsFollowAtOnceNoMoreThanOneAfterTheOther: otherwise two fleets that change the same machines would continue
// without a rest.
func TestRoundsFollowAtOnceNoMoreThanOneAfterTheOther(t *testing.T) {
	p := &pace{}
	for i, want := range []time.Duration{0, leastRest, 0, leastRest} {
		p.begin(epoch)
		p.changed()
		p.ended = epoch
		if got := p.wait(epoch, time.Time{}); got != want {
			t.Errorf("after %d rounds that met a change the next waits for %v, want %v", i+1, got, want)
		}
	}
}

// gathering is what a round gathers in which the named pods have waited since these times.
func gathering(r *Reconciler, p *pace, now time.Time, waited map[string]time.Time) batch {
	return p.gather(&fleetNamed("f").Spec.Scaling, waited, &r.arrivals, now) // idle 1s, most 10s
}

// TestPodsThatWereDecidedAboutAreNotGatheredWith: one that stays pending would otherwise end the gathering of all later
// pods.
func TestPodsThatWereDecidedAboutAreNotGatheredWith(t *testing.T) {
	r, p := &Reconciler{}, &pace{}
	at := epoch.Add
	for _, step := range []struct {
		what   string
		now    time.Duration
		waited map[string]time.Time
		want   time.Duration
	}{
		{"a pod has just come", 0, map[string]time.Time{"a": epoch}, second},
		{"no other comes", second, map[string]time.Time{"a": epoch}, 0},
		{"another comes long after", 20 * second, map[string]time.Time{"a": epoch, "b": at(20 * second)}, second},
		{"and another", 20500 * time.Millisecond, map[string]time.Time{"a": epoch, "b": at(20 * second), "c": at(20 * second)}, second},
		{"both have been gathered", 21500 * time.Millisecond, map[string]time.Time{"a": epoch, "b": at(20 * second), "c": at(20 * second)}, 0},
		{"nothing has come since", 30 * second, map[string]time.Time{"a": epoch, "b": at(20 * second)}, 0},
		{"none waits", 40 * second, nil, 0},
	} {
		if got := gathering(r, p, at(step.now), step.waited).wait; got != step.want {
			t.Errorf("%s: more are awaited for %v, want %v", step.what, got, step.want)
		}
	}
}

// TestPodsWhoseOrderFailedAreNotGatheredAgain has another pod arrive after the order of the first has failed.
func TestPodsWhoseOrderFailedAreNotGatheredAgain(t *testing.T) {
	for _, stillWaits := range []bool{true, false} {
		r, p := &Reconciler{}, &pace{}
		first := gathering(r, p, epoch, map[string]time.Time{"a": epoch.Add(-second)})
		if first.wait != 0 {
			t.Fatal("more pods are awaited")
		}
		p.orderAgain(first)
		now := epoch.Add(100 * time.Millisecond)
		waited := map[string]time.Time{"b": now}
		if stillWaits {
			waited["a"] = epoch.Add(-second)
		}
		next := gathering(r, p, now, waited)
		if wait := next.wait; wait == 0 != stillWaits {
			t.Errorf("more are awaited for %v; the first still waits: %t", wait, stillWaits)
		}
		if stillWaits && !next.ends.Equal(epoch) {
			t.Errorf("its order counts from %v after the first gathering ended", next.ends.Sub(epoch))
		}
	}
}

// TestWhatCanWaitIsLeftToTheNextRoundWhenPodsHaveBeenGathered but not twice in a row.
func TestWhatCanWaitIsLeftToTheNextRoundWhenPodsHaveBeenGathered(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(epoch)
	r, p := &Reconciler{Clock: clock}, &pace{}
	pod := func(name string) {
		r.arrivals.observe(waitingSince(name, clock.Now()), clock.Now())
	}
	for i, want := range []bool{true, false, true} {
		p.begin(clock.Now())
		round := &round{Reconciler: r, pace: p}
		gathering(r, p, clock.Now(), nil)
		if round.pressed() {
			t.Errorf("round %d is pressed although no pod has come", i)
		}
		clock.SetTime(clock.Now().Add(second))
		pod(string(rune('a' + i)))
		if round.pressed() {
			t.Errorf("round %d is pressed while pods are gathered", i)
		}
		clock.SetTime(clock.Now().Add(second))
		if got := round.pressed(); got != want {
			t.Errorf("round %d: it is %t that what can wait is left, want %t", i, got, want)
		}
	}
}

func waitingSince(name string, at time.Time) *corev1.Pod {
	p := testPod(name, 1000, 1024, time.Hour)
	p.Status.Conditions = []corev1.PodCondition{waitsSince(at.Truncate(second))}
	return p
}

// TestAPodWaitsSinceItWasSeenToHaveNoRoom: conditions round down to seconds.
func TestAPodWaitsSinceItWasSeenToHaveNoRoom(t *testing.T) {
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	waits, bound := waitingSince("p", epoch), testPod("p", 1000, 1024, time.Hour)
	for _, tc := range []struct {
		name string
		do   func(a *arrivals)
		want time.Time
	}{
		{"seen at once", func(a *arrivals) { a.observe(waits, at(700)) }, at(700)},
		{"seen again", func(a *arrivals) { a.observe(waits, at(300)); a.observe(waits, at(900)) }, at(300)},
		{"seen too late to be true, as after a restart", func(a *arrivals) { a.observe(waits, at(1000)) }, at(0)},
		{"not seen yet", func(*arrivals) {}, at(950)},
		{"a clock that is behind", func(a *arrivals) { a.observe(waits, at(-1)) }, at(0)},
		{"bound in between", func(a *arrivals) { a.observe(waits, at(100)); a.observe(bound, at(150)); a.observe(waits, at(200)) }, at(200)},
		{"another of that name", func(a *arrivals) { a.observe(waits, at(100)); a.gone("default/p"); a.observe(waits, at(200)) }, at(200)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var a arrivals
			tc.do(&a)
			if got := a.waits("default/p", epoch, at(950)); !got.Equal(tc.want) {
				t.Errorf("it waits since %v, want %v", got.Sub(epoch), tc.want.Sub(epoch))
			}
		})
	}
}

// TestWhatTheWatchTellsReachesTheArrivals uses the event handler.
func TestWhatTheWatchTellsReachesTheArrivals(t *testing.T) {
	m := newModel(t, nil, nil)
	matters := m.r.podMatters()
	pod := testPod("p", 1000, 1024, time.Hour)
	waits := waitingSince("p", epoch)
	count := func(want int, when string) {
		t.Helper()
		if got := len(m.r.arrivals.after(time.Time{})); got != want {
			t.Errorf("%d pods wait %s, want %d", got, when, want)
		}
	}
	matters.Create(event.CreateEvent{Object: pod})
	count(0, "when it has just been made")
	matters.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: waits})
	count(1, "when it finds no room")
	matters.Delete(event.DeleteEvent{Object: waits})
	count(0, "when it has gone")
	matters.Create(event.CreateEvent{Object: waits})
	m.r.arrivals.prune(nil, epoch.Add(2*minute))
	count(0, "when its deletion has been missed")
}

// meeting is a provider whose orders are intercepted by a test.
type meeting struct {
	*modelProvider
	buy func(ctx context.Context, fleet, flavor string) error
}

// Buy implements provider.Provider.
func (p *meeting) Buy(ctx context.Context, intent, flavor string, from, to int) error {
	if err := p.buy(ctx, p.fleet, flavor); err != nil {
		return err
	}
	return p.modelProvider.Buy(ctx, intent, flavor, from, to)
}

// meets intercepts the orders of all fleets.
func (m *model) meets(buy func(ctx context.Context, fleet, flavor string) error) {
	m.r.NewProvider = func(f *v1alpha1.NodeFleet, _ map[string]*corev1.Node) (provider.Provider, error) {
		return &meeting{&modelProvider{m, f.Name}, buy}, nil
	}
}

// different are two flavors, and pods that need one of them each.
func different() (flavors []provider.Flavor, pods []*corev1.Pod) {
	return []provider.Flavor{modelFlavor("large", 16, 64, 350_000), modelFlavor("small", 4, 16, 100_000)},
		[]*corev1.Pod{testPod("p", 15_000, 1024, time.Hour), testPod("q", 3000, 1024, time.Hour), testPod("r", 2000, 1024, time.Hour)}
}

// TestAnOrderThatMeetsAnotherWriteIsDoneAgainAlone has conflicts on the write of one flavor.
func TestAnOrderThatMeetsAnotherWriteIsDoneAgainAlone(t *testing.T) {
	for _, tc := range []struct {
		conflicts, tried int
		condition        string
	}{
		{1, 2, "True Reconciled"},
		{conflictTries, conflictTries + 1, "True Reconciled"},
		{conflictTries + 1, conflictTries + 1, "True Retrying"},
	} {
		flavors, pods := different()
		m := newModel(t, alone(nil), flavors)
		m.add(pods...)
		tried, left := map[string]int{}, tc.conflicts
		m.meets(func(_ context.Context, _, flavor string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if tried[flavor]++; flavor == "large" && left > 0 {
				left--
				return provider.ErrConflict
			}
			return nil
		})
		m.pass(2 * second)
		m.round("f")
		if tried["large"] != tc.tried || tried["small"] != 1 || m.flavor("small").Want == 0 {
			t.Errorf("%d conflicts: orders were tried %v times, and there are to be %d small", tc.conflicts, tried, m.flavor("small").Want)
		}
		m.checkCondition(v1alpha1.FleetReady, tc.condition)
		m.meets(func(context.Context, string, string) error { return nil })
		m.run(5*minute, "f")
		if !strings.HasPrefix(m.outcome(), "3 pods run, 0 wait") || !strings.Contains(m.outcome(), "large 1 of 1, at most 1;") {
			t.Errorf("%d conflicts: %s\n%s", tc.conflicts, m.outcome(), strings.Join(m.log, "\n"))
		}
	}
}

// TestOrdersOfSeveralFlavorsDoNotWaitForEachOther has each order wait until the other has started.
func TestOrdersOfSeveralFlavorsDoNotWaitForEachOther(t *testing.T) {
	flavors, pods := different()
	m := newModel(t, alone(nil), flavors)
	m.add(pods...)
	asked := map[string]chan struct{}{"large": make(chan struct{}), "small": make(chan struct{})}
	m.meets(func(ctx context.Context, _, flavor string) error {
		close(asked[flavor])
		for _, other := range asked {
			select {
			case <-other:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	m.pass(2 * second)
	m.round("f")
	if m.flavor("large").Want != 1 || m.flavor("small").Want == 0 {
		t.Errorf("%s", m.outcome())
	}
}

// TestAnOrderIsKnownToOtherFleetsBeforeItIsMadeAndPaidForAfterwards reads what is known while the provider is called,
// and the status at the end of the same round.
func TestAnOrderIsKnownToOtherFleetsBeforeItIsMadeAndPaidForAfterwards(t *testing.T) {
	flavors, pods := different()
	m := newModel(t, alone(nil), flavors)
	m.add(pods...)
	uid := m.fleet("f").UID
	m.meets(func(_ context.Context, _, flavor string) error {
		for _, f := range m.r.lastInventory(uid).Flavors {
			if f.Name == flavor && f.Want == 0 {
				t.Errorf("other fleets do not know yet that %s is ordered", flavor)
			}
		}
		return nil
	})
	m.pass(2 * second)
	m.round("f")
	want := dollars.Format(int64(m.flavor("large").Want)*350_000 + int64(m.flavor("small").Want)*100_000)
	if got := m.fleet("f").Status.Cost.DollarsPerHour; m.flavor("large").Want == 0 || got != want {
		t.Errorf("after the orders the fleet costs $%s/h, want $%s/h", got, want)
	}
}

// TestAnOrderThatIsNotAnsweredHoldsNoOtherFleet has a fleet whose order hangs. Another one buys meanwhile, and counts
// on what the first is ordering.
func TestAnOrderThatIsNotAnsweredHoldsNoOtherFleet(t *testing.T) {
	g := fleetNamed("g")
	m := newModel(t, append(alone(nil), g), []provider.Flavor{modelFlavor("large", 16, 64, 350_000), modelFlavor("small", 4, 16, 100_000)})
	m.sellers = map[string]string{"small": "f", "large": "g"}
	m.add(testPod("p", 15_000, 1024, time.Hour)) // only large machines hold it
	hangs, answers := make(chan struct{}), make(chan struct{})
	m.meets(func(ctx context.Context, fleet, _ string) error {
		if fleet != "g" {
			return nil
		}
		close(hangs)
		select {
		case <-answers:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	m.pass(2 * second)
	m.round("f")
	done := make(chan error)
	go func() {
		_, err := m.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "g"}})
		done <- err
	}()
	<-hangs
	m.add(testPod("on-the-large-one", 900, 1024, time.Hour), testPod("q", 3000, 1024, time.Hour))
	m.clock.SetTime(m.clock.Now().Add(2 * second))
	m.round("f")
	m.clock.SetTime(m.clock.Now().Add(2 * second))
	m.round("f")
	if got := m.flavor("small").Want; got != 1 {
		t.Errorf("the other fleet has ordered %d machines while the order hangs, want 1", got)
	}
	close(answers)
	if err := <-done; err != nil {
		t.Error(err)
	}
	m.run(5*minute, "f", "g")
	m.checkOutcome("3 pods run, 0 wait, 0 have ended, lost []; large 1 of 1, at most 1; small 1 of 1, at most 1; 2 were made, 0 nodes are cordoned")
}
