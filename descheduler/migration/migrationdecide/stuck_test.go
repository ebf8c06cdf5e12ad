package migrationdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// isBound reports whether the new pod is bound, and its node has not reported that it runs.
func isBound(w *world) bool {
	r := w.restored()
	return r != nil && r.Spec.NodeName != "" && r.Status.Phase == corev1.PodPending
}

// untilItWaits runs the controller until it only waits, and advances the time until it waits
// without a timeout.
func (w *world) untilItWaits() Step {
	for range 50 {
		step := w.decide()
		switch {
		case step.Do != Wait:
			w.apply(step, w.m.ResourceVersion)
		case !step.Until.IsZero():
			w.now = step.Until
		default:
			return step
		}
	}
	return Step{}
}

func TestAMigrationThatWaitsWithoutALimitSaysSoAndCountsNoMore(t *testing.T) {
	handedOver := ordered(v1alpha1.OrderKill)
	cancel := func(w *world) { w.m.DeletionTimestamp = &metav1.Time{} }
	for _, tc := range []struct {
		name   string
		until  func(*world) bool
		spoil  func(*world)
		kind   string
		reason string
		// back resolves the wait, so that the migration can end.
		back func(*world)
	}{
		{"the node of the new pod is lost", isBound, func(w *world) { w.cutOff(nodeB) }, v1alpha1.MigrationFrozen, "WaitingForNewPod", (*world).reconnect},
		{"the kubelet of the new pod is silent", isBound, func(w *world) { cancel(w); w.cut[nodeB] = true }, v1alpha1.MigrationFrozen, "WaitingForNewPod", (*world).reconnect},
		{"the node of a new pod that has run is lost", isRunning, func(w *world) { w.cutOff(nodeB) }, v1alpha1.MigrationFrozen, "WaitingForNewPod", (*world).reconnect},
		{"the node of the old pod is lost", isStaged, func(w *world) { cancel(w); w.cutOff(nodeA) }, v1alpha1.MigrationFrozen, "SourceNotReady", (*world).reconnect},
		{"the agent of the old pod is silent", isStaged, func(w *world) { cancel(w); w.cut[nodeA] = true }, v1alpha1.MigrationFrozen, "AgentNotReporting", (*world).reconnect},
		{"the node of the old pod is lost after the hand-over", handedOver, func(w *world) { w.cutOff(nodeA) }, v1alpha1.MigrationHandedOver, "SourceNotReady", (*world).reconnect},
		{"the agent of the old pod is silent after the hand-over", handedOver, func(w *world) { w.cut[nodeA] = true }, v1alpha1.MigrationHandedOver, "AgentNotReporting", (*world).reconnect},
		{"the kubelet of a new pod that was bound too early is silent", next(CreatePod), func(w *world) {
			w.controller()
			w.restored().Spec.NodeName = nodeC
			w.cut[nodeC] = true
		}, v1alpha1.MigrationCleanedUp, "NewPodNotDeleted", (*world).reconnect},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, tc.until)
			if f := FlightOf(w.m); f == nil || f.Stuck || !Counts(w.m) {
				t.Fatalf("it does not count before: %+v", f)
			}
			tc.spoil(w)
			before := w.m.Status.DeepCopy()
			if step := w.untilItWaits(); step.Do != Wait {
				t.Fatalf("it does not come to wait: %+v\n%s", w.m.Status, strings.Join(w.trace, "\n"))
			}
			if c := condition(&w.m.Status, tc.kind); c == nil || c.Reason != tc.reason || !strings.Contains(c.Message, "node ") {
				t.Errorf("%s is %+v, want reason %s", tc.kind, c, tc.reason)
			}
			if f := FlightOf(w.m); f == nil || !f.Stuck || Counts(w.m) {
				t.Errorf("it counts: %+v", f)
			}
			told := ""
			for _, e := range EventsOf(before, &w.m.Status) {
				told += e.Type + " " + e.Reason + ", "
			}
			if !strings.Contains(told, "Warning "+tc.reason+", ") {
				t.Errorf("told %s, and not %s", told, tc.reason)
			}
			later := w.m.Status.DeepCopy()
			later.ObservedGeneration++
			if again := EventsOf(&w.m.Status, later); len(again) > 0 {
				t.Errorf("told again: %+v", again)
			}
			tc.back(w)
			for range 100 {
				w.now = w.now.Add(time.Second)
				w.controller()
				w.sourceAgent()
				w.targetAgent(nodeB)
				for _, node := range []string{nodeA, nodeB, nodeC} {
					w.kubelet(node)
				}
				w.jobController()
				if w.m == nil || Ended(w.m) {
					return
				}
			}
			t.Errorf("it does not end once all are back: %+v", w.m.Status)
		})
	}
}

// waiting returns the observation of a migration that waits for room among a number of others of
// another namespace, all of which began at a time.
func waiting(w *world, others int, began time.Time) Observation {
	o := w.observe()
	for i := range others {
		o.Others = append(o.Others, Flight{Namespace: fmt.Sprint(i), Name: fmt.Sprintf("%d/hog", i), PodUID: fmt.Sprint(i), Source: "x", StartedAt: began})
	}
	o.Migration.Status = *Next(w.config, o, w.now).Status
	return o
}

func TestAMigrationThatFindsNoRoomEndsAtItsDeadline(t *testing.T) {
	w := newWorld(0, ofJob)
	w.budgeted(0)
	w.budgets[0].Status.DisruptedPods = map[string]metav1.Time{source: metav1.NewTime(w.now)} // the eviction's
	o := waiting(w, 10, w.now.Add(-time.Hour))
	step := Next(w.config, o, w.now)
	if step.Do != Wait || !step.Until.Equal(w.now.Add(5*time.Minute)) {
		t.Fatalf("%+v, want to wait until the deadline", step)
	}
	if early := Next(w.config, o, step.Until.Add(-time.Second)); early.Do != Wait {
		t.Errorf("it ends early: %+v", early)
	}
	end := Next(w.config, o, step.Until)
	if end.Do != WriteBudget || len(end.Budget.Status.DisruptedPods) > 0 {
		t.Fatalf("the claim of the eviction is not released: %+v", end)
	}
	o.Budgets = nil
	end = Next(w.config, o, step.Until)
	if end.Do != WriteStatus || end.Status.Phase != v1alpha1.MigrationRolledBack || end.Status.Plan != nil {
		t.Fatalf("it does not end: %+v", end)
	}
	c := condition(end.Status, v1alpha1.MigrationFinished)
	for _, want := range []string{"DeadlineExceeded", "nothing was changed", "5m0s", "10 of at most 10 migrations are in flight"} {
		if c.Status != yes || !strings.Contains(c.Message, want) {
			t.Errorf("does not say %q: %+v", want, c)
		}
	}
	if got := OutcomeOf(&o.Migration.Status, end.Status); got == nil || *got != (Outcome{v1alpha1.MigrationRolledBack, "DeadlineExceeded"}) {
		t.Errorf("outcome %+v", got)
	}
}

// TestAMigrationWaitsAsLongAsOthersBeginAndEnd: a drain of many pods takes longer than the
// deadline of one, since they move in turn.
func TestAMigrationWaitsAsLongAsOthersBeginAndEnd(t *testing.T) {
	w := newWorld(0, ofJob)
	began := w.now.Add(4 * time.Minute)
	o := waiting(w, 10, began)
	for i := range o.Others[1:] {
		o.Others[i+1].StartedAt = w.now.Add(-time.Hour)
	}
	step := Next(w.config, o, w.now.Add(6*time.Minute))
	if step.Do != Wait || !step.Until.Equal(began.Add(5*time.Minute)) {
		t.Errorf("%+v, want to wait until none has begun for 5 minutes", step)
	}
}

// TestMigrationsWithoutAPlaceDoNotTakeTheRoomUpForADay: ten migrations with a deadline of a day
// and a target without room take up half of the room, but only for ten minutes.
func TestMigrationsWithoutAPlaceDoNotTakeTheRoomUpForADay(t *testing.T) {
	w := newWorld(0, ofJob)
	w.m.Spec.Deadline = metav1.Duration{Duration: 24 * time.Hour}
	for range 20 {
		w.controller()
		w.sourceAgent()
	}
	if w.restored() == nil {
		t.Fatalf("it has not begun: %+v", w.m.Status)
	}
	step := w.decide()
	if step.Do != Wait || !step.Until.Equal(w.m.Status.Plan.StartedAt.Add(10*time.Minute)) {
		t.Fatalf("%+v, want to wait for 10 minutes", step)
	}
	w.now = step.Until
	step = w.decide()
	if step.Do != WriteStatus || step.Status.Phase != v1alpha1.MigrationRollingBack {
		t.Fatalf("it does not go back: %+v", step)
	}
	if c := condition(step.Status, v1alpha1.MigrationFinished); c.Reason != "ReservationTimeout" || !strings.Contains(c.Message, "10m0s") {
		t.Errorf("it goes back for %+v", c)
	}
	if frozen := on(t, ofJob, ordered(v1alpha1.OrderFreeze)); frozen.m != nil {
		frozen.m.Status.Plan.DeadlineAt = metav1.NewTime(frozen.now.Add(24 * time.Hour))
		frozen.now = frozen.now.Add(time.Hour)
		if step := frozen.decide(); step.Do == WriteStatus && step.Status.Phase == v1alpha1.MigrationRollingBack {
			t.Errorf("one that has frozen its pod goes back before its deadline: %+v", step)
		}
	}
	var others []Flight
	for i := range 5 {
		others = append(others, Flight{Namespace: "hog", PodUID: fmt.Sprint(i), Source: "x"})
	}
	if !w.config.Full(others, "hog", nodeA) || w.config.Full(others, "ns", nodeA) {
		t.Error("a namespace takes up more than half of the room")
	}
	set := w.config
	set.MaxPerNamespace = 7
	if set.Full(others, "hog", nodeA) {
		t.Error("the limit of a namespace that is given does not hold")
	}
}

// TestTheClaimOfAFrozenPodDoesNotLapse: otherwise the claim would lapse after two minutes, and
// another pod of its budget could be evicted while this one is frozen.
func TestTheClaimOfAFrozenPodDoesNotLapse(t *testing.T) {
	for _, tc := range []struct {
		name  string
		until func(*world) bool
		spoil func(*world)
	}{
		{"while its state is on the way", ordered(v1alpha1.OrderFreeze), func(w *world) { w.cut[nodeA] = true }},
		{"while the new pod is to run", isStaged, func(w *world) { w.cut[nodeB] = true }},
		{"while it is held", isBound, func(w *world) { w.cutOff(nodeB) }},
		{"while its agent is silent", isStaged, func(w *world) { w.m.DeletionTimestamp = &metav1.Time{}; w.cut[nodeA] = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := toFreeze(t, 1)
			for range 100 {
				if tc.until(w) {
					break
				}
				w.controller()
				w.scheduler()
				w.sourceAgent()
				w.targetAgent(nodeB)
				w.kubelet(nodeB)
			}
			tc.spoil(w)
			for end := w.now.Add(4 * time.Minute); w.now.Before(end); {
				step := w.decide()
				if step.Do != Wait {
					w.apply(step, w.m.ResourceVersion)
					continue
				}
				at := w.budgets[0].Status.DisruptedPods[source]
				if age := w.now.Sub(at.Time); age > time.Minute {
					t.Fatalf("the claim is %s old", age)
				}
				if step.Until.IsZero() {
					t.Fatalf("nobody checks the claim again: %+v", step)
				}
				w.now = step.Until
			}
			if _, left := w.claimed(); left != 0 {
				t.Errorf("%d disruptions are left, want 0: one pod was claimed once", left)
			}
		})
	}
}

// TestAClaimThatHasLapsedIsMadeAgain: the descheduler was down until the claim had lapsed, and
// the budget counts the frozen pod again.
func TestAClaimThatHasLapsedIsMadeAgain(t *testing.T) {
	for _, allowed := range []int32{0, 1} {
		w := toFreeze(t, 1)
		w.budgets[0].Status.DisruptedPods, w.budgets[0].Status.DisruptionsAllowed = nil, allowed
		for range 5 {
			w.apply(w.decide(), w.m.ResourceVersion)
		}
		if noted, left := w.claimed(); !noted || left != 0 {
			t.Errorf("with %d disruptions allowed: the pod is noted: %v, %d are left", allowed, noted, left)
		}
	}
}

func TestAFrozenPodOnWhichNoBudgetCountsNeedsNoClaim(t *testing.T) {
	w := toFreeze(t, 1)
	w.budgets[0].Status.DisruptedPods = nil
	w.pods[source].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	for range 5 {
		w.apply(w.decide(), w.m.ResourceVersion)
	}
	if noted, _ := w.claimed(); noted {
		t.Error("a pod that is not ready is claimed")
	}
}
