package evictiondecide

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/movable/attempts"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// config is the configuration of the cases, unless they change it.
var config = Config{Deadline: 5 * time.Minute, Attempts: 2, AfterFailure: Evict}

// seen returns the observation of a pod that can be moved.
func seen() Observation {
	return Observation{Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "work", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"app": "work"},
			Annotations: map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint},
		},
		Spec:   corev1.PodSpec{NodeName: "a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}}
}

// migration adds a Migration of the pod. phase is its last phase; empty if it has not ended.
func migration(name string, phase v1alpha1.MigrationPhase, change ...func(*v1alpha1.Migration)) func(*Observation) {
	return func(o *Observation) {
		m := v1alpha1.Migration{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("of-" + name)},
			Spec:       v1alpha1.MigrationSpec{PodName: "work", PodUID: "uid"},
		}
		if phase != "" {
			m.Status.Phase = phase
			m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MigrationFinished, Status: metav1.ConditionTrue, Message: "why it ended"}}
		}
		for _, c := range change {
			c(&m)
		}
		o.Migrations = append(o.Migrations, m)
	}
}

// allows adds a budget that allows a number of disruptions.
func allows(name string, disruptions int32) func(*Observation) {
	return func(o *Observation) {
		o.Budgets = append(o.Budgets, policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: disruptions, DesiredHealthy: 1, CurrentHealthy: 1 + disruptions},
		})
	}
}

func pod(change func(*corev1.Pod)) func(*Observation) {
	return func(o *Observation) { change(o.Pod) }
}

func preconditions(p metav1.Preconditions) func(*Observation) {
	return func(o *Observation) { o.Options = &metav1.DeleteOptions{Preconditions: &p} }
}

func both(changes ...func(*Observation)) func(*Observation) {
	return func(o *Observation) {
		for _, c := range changes {
			c(o)
		}
	}
}

func TestHowAnEvictionIsAnswered(t *testing.T) {
	because := func(reason, message string) func(*Observation) {
		return func(o *Observation) {
			o.Verdict.Refusals = append(o.Verdict.Refusals, movable.Refusal{Reason: reason, Message: message})
		}
	}
	refused, unready := because("EmptyDirUnsupported", "volume v is an emptyDir"), because("NodeNotReady", "wait until it is")
	ended := func(reason string, ago time.Duration) func(*v1alpha1.Migration) {
		return func(m *v1alpha1.Migration) {
			m.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-ago))
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: v1alpha1.MigrationEligible, Status: metav1.ConditionFalse, Reason: reason, Message: "close it"})
		}
	}
	going := pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })
	for _, tc := range []struct {
		name    string
		change  func(*Observation)
		outcome Outcome
		says    string // part of the refusal or the warning
	}{
		{"a pod that can be moved", func(*Observation) {}, Started, Evacuation + ": Migration evict-uid-1 moves pod work"},
		{"one that is gone", func(o *Observation) { o.Pod = nil }, Untouched, ""},
		{"one that has ended well", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), Untouched, ""},
		{"one that has failed", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), Untouched, ""},
		{"one that does not run yet", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), Untouched, ""},
		{"one that is being deleted", going, Untouched, ""},
		{"one that says nothing", pod(func(p *corev1.Pod) { p.Annotations = nil }), Untouched, ""},
		{"one that is to start again", pod(func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart }), Untouched, ""},
		{"one that is never to be moved", pod(func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationNever }), Untouched, ""},
		{"one that cannot be moved", refused, NotMovable, "pod work loses its state if it is evicted: it cannot be moved: EmptyDirUnsupported: volume v is an emptyDir"},
		{"one that cannot be moved yet", unready, NotMovableYet, "pod work would lose its state if it were evicted, and cannot be moved yet: NodeNotReady: wait until it is"},
		{"one that can never be moved, nor yet", both(unready, refused), NotMovable, "it cannot be moved: EmptyDirUnsupported: volume v is an emptyDir"},
		{"one that cannot be moved for an unknown reason", because("Later", "of a later agent"), NotMovableYet, "of a later agent"},
		{"one that cannot be moved yet, at the limit of its budget", both(unready, allows("b", 0)), NotMovableYet, "NodeNotReady"},
		{"one that cannot be moved yet, and says nothing", both(unready, pod(func(p *corev1.Pod) { p.Annotations = nil })), Untouched, ""},

		{"preconditions that are met", preconditions(metav1.Preconditions{UID: new(types.UID("uid")), ResourceVersion: new("7")}), Started, Evacuation},
		{"no preconditions among the options", func(o *Observation) { o.Options = &metav1.DeleteOptions{} }, Started, Evacuation},
		{"another UID", preconditions(metav1.Preconditions{UID: new(types.UID("other"))}), Untouched, ""},
		{"another version", preconditions(metav1.Preconditions{ResourceVersion: new("6")}), Untouched, ""},
		{"another UID of one that is being moved", both(preconditions(metav1.Preconditions{UID: new(types.UID("other"))}), migration("m", "")), Untouched, ""},

		{"one that is being moved for an eviction", migration("evict-uid-1", ""), InFlight, Evacuation + ": Migration evict-uid-1"},
		{"one that somebody else moves", migration("by-hand", "", func(m *v1alpha1.Migration) { m.Spec.PodUID = "" }), InFlight, Evacuation + ": Migration by-hand"},
		{"one whose place is being handed over", both(migration("m", "", func(m *v1alpha1.Migration) { m.Status.Plan = &v1alpha1.MigrationPlan{PodUID: "uid"} }), going), InFlight, Evacuation},
		{"a later pod of the name of one that was moved", migration("m", "", func(m *v1alpha1.Migration) { m.Status.Plan = &v1alpha1.MigrationPlan{PodUID: "earlier"} }), Started, Evacuation},
		{"a later pod of the name of one that is to be moved", migration("m", "", func(m *v1alpha1.Migration) { m.Spec.PodUID = "earlier" }), Started, Evacuation},
		{"beside another that is moved", migration("m", "", func(m *v1alpha1.Migration) { m.Spec.PodName = "other" }), Started, Evacuation},
		{"one whose migration was cancelled and goes back", migration("evict-uid-1", "", func(m *v1alpha1.Migration) { m.DeletionTimestamp = &metav1.Time{Time: now} }), InFlight, "evict-uid-1"},
		{"one that is being moved in", both(migration("m", "", func(m *v1alpha1.Migration) { m.Spec.PodName = "old" }),
			pod(func(p *corev1.Pod) { p.Labels[v1alpha1.LabelMigration] = "of-m" })), Arriving, "Migration m is moving pod work to this node"},
		{"one that has been moved in", both(migration("m", v1alpha1.MigrationSucceeded, func(m *v1alpha1.Migration) { m.Spec.PodName = "old" }),
			pod(func(p *corev1.Pod) { p.Labels[v1alpha1.LabelMigration] = "of-m" })), Started, Evacuation},

		{"after one failure", migration("evict-uid-1", v1alpha1.MigrationRolledBack), Started, "Migration evict-uid-2"},
		{"after two", both(migration("evict-uid-1", v1alpha1.MigrationRolledBack), migration("evict-uid-2", v1alpha1.MigrationRolledBack)),
			Failed, "because it could not be moved: Migration evict-uid-2 has ended: why it ended"},
		{"after one of which the first record is gone", migration("evict-uid-7", v1alpha1.MigrationRolledBack), Started, "Migration evict-uid-8"},
		{"after a refusal that lasts", migration("evict-uid-1", v1alpha1.MigrationRefused, ended("NotSupported", 0)), Failed, "why it ended"},
		{"right after a refusal that passes", migration("evict-uid-1", v1alpha1.MigrationRefused, ended("OpenConnections", time.Minute-time.Second)), NotMovableYet, "cannot be moved yet: OpenConnections: close it"},
		{"a while after a refusal that passes", migration("evict-uid-1", v1alpha1.MigrationRefused, ended("OpenConnections", time.Minute)), Started, "Migration evict-uid-2"},
		{"after a refusal since another moved it", migration("evict-uid-1", v1alpha1.MigrationRefused, ended("AlreadyMoving", time.Hour)), Started, "Migration evict-uid-2"},
		{"right after a failure that was no refusal", migration("evict-uid-1", v1alpha1.MigrationRolledBack, ended("Movable", 0)), Started, "Migration evict-uid-2"},
		{"after two refusals that pass", both(migration("evict-uid-1", v1alpha1.MigrationRefused, ended("QuotaExceeded", time.Hour)),
			migration("evict-uid-2", v1alpha1.MigrationRefused, ended("OpenConnections", 0))), Failed, "why it ended"},
		{"after a failure that no eviction had to do with", migration("by-hand", v1alpha1.MigrationRolledBack), Started, "Migration evict-uid-1"},
		{"beside a migration whose name only begins alike", migration("evict-uid-x", v1alpha1.MigrationRolledBack), Started, "Migration evict-uid-1"},

		{"within its budget", allows("b", 1), Started, Evacuation},
		{"at the limit of its budget", allows("b", 0), OverBudget, "violate the pod's disruption budget"},
		{"one that is not opted in, at the limit", both(allows("b", 0), pod(func(p *corev1.Pod) { p.Annotations = nil })), Untouched, ""},
		{"one that is being moved, at the limit", both(allows("b", 0), migration("m", "")), InFlight, Evacuation},
		{"with two budgets", both(allows("b", 1), allows("c", 1)), Untouched, ""},
		{"with a budget that is broken", allows("b", -1), Untouched, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := seen()
			tc.change(&o)
			got := Reply(config, o, now)
			if got.Outcome != tc.outcome {
				t.Fatalf("it is %s, want %s: %+v", got.Outcome, tc.outcome, got)
			}
			text := got.Warning
			if got.Status != nil {
				text = got.Status.Message
			}
			if !strings.Contains(text, tc.says) || tc.says == "" && text != "" {
				t.Errorf("it says %q, want %q", text, tc.says)
			}
			checkForm(t, got)
		})
	}
}

// checkForm checks what clients rely on, for every answer.
func checkForm(t *testing.T, a Answer) {
	t.Helper()
	passes := a.Outcome == Untouched || a.Outcome == NotMovable || a.Outcome == Failed
	if passes != (a.Status == nil) {
		t.Errorf("outcome %s has status %+v", a.Outcome, a.Status)
	}
	if (a.Migration != nil) != (a.Outcome == Started) || a.Migration == nil && len(a.Claims) > 0 {
		t.Errorf("outcome %s makes %+v and claims %v", a.Outcome, a.Migration, a.Claims)
	}
	if (a.Outcome == NotMovable || a.Outcome == NotMovableYet) != (len(a.Refusals) > 0) {
		t.Errorf("outcome %s has refusals %v", a.Outcome, a.Refusals)
	}
	if a.Status == nil {
		return
	}
	if a.Status.Code != http.StatusTooManyRequests || a.Status.Reason != metav1.StatusReasonTooManyRequests || a.Status.Status != metav1.StatusFailure {
		t.Errorf("status %+v", a.Status)
	}
	if a.Status.Details != nil && a.Status.Details.RetryAfterSeconds != 0 {
		t.Errorf("it is to be tried again after %d s", a.Status.Details.RetryAfterSeconds)
	}
}

func TestAnEvictionMakesAMigrationOfThatPodAndClaimsItsBudget(t *testing.T) {
	o := seen()
	allows("b", 1)(&o)
	before := o.Budgets[0].DeepCopy()
	got := Reply(config, o, now)
	want := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "evict-uid-1"},
		Spec:       v1alpha1.MigrationSpec{PodName: "work", PodUID: "uid", Deadline: metav1.Duration{Duration: 5 * time.Minute}},
	}
	if diff := cmp.Diff(want, got.Migration); diff != "" {
		t.Errorf("migration (-want +got):\n%s", diff)
	}
	if len(got.Claims) != 1 || got.Claims[0].Status.DisruptionsAllowed != 0 || len(got.Claims[0].Status.DisruptedPods) != 1 {
		t.Errorf("claims %+v", got.Claims)
	}
	if diff := cmp.Diff(before, &o.Budgets[0]); diff != "" {
		t.Errorf("the budget that was checked has changed (-was +is):\n%s", diff)
	}
	o.Budgets = []policyv1.PodDisruptionBudget{*got.Claims[0]}
	if again := Reply(config, o, now); again.Outcome != Started || again.Migration.Name != want.Name || len(again.Claims) != 0 {
		t.Errorf("asked again before the Migration is seen: %+v", again)
	}
}

func TestABudgetAtItsLimitIsSaidAsTheAPIServerSaysIt(t *testing.T) {
	o := seen()
	allows("b", 0)(&o)
	want := &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget b needs 1 healthy pods and has 1 currently"}}}
	if diff := cmp.Diff(want, Reply(config, o, now).Status.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	o.Budgets[0].Generation = 2
	if d := Reply(config, o, now).Status.Details; d.RetryAfterSeconds != 10 || !strings.Contains(d.Causes[0].Message, "still being processed") {
		t.Errorf("of a budget that nobody has checked yet: %+v", d)
	}
}

func TestAPodThatCannotBeMovedCanBeKept(t *testing.T) {
	keep := config
	keep.AfterFailure = Keep
	o := seen()
	migration("evict-uid-1", v1alpha1.MigrationRefused, func(m *v1alpha1.Migration) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: v1alpha1.MigrationEligible, Status: metav1.ConditionFalse, Reason: "NotSupported"})
	})(&o)
	got := Reply(keep, o, now)
	if got.Outcome != Failed || got.Status == nil || got.Status.Code != http.StatusTooManyRequests || strings.Contains(got.Status.Message, Evacuation) {
		t.Errorf("answer %+v, status %+v", got, got.Status)
	}
	if !strings.Contains(got.Status.Message, "Migration evict-uid-1 has ended: why it ended") {
		t.Errorf("it says %q", got.Status.Message)
	}
}

// TestFailuresCountThoughTheirMigrationsAreGone: finished Migrations may be deleted at once. The
// pod remembers how many failed.
func TestFailuresCountThoughTheirMigrationsAreGone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		failed int
		after  AfterFailure
		change func(*Observation)
		want   Outcome
		says   string
	}{
		{"none has failed", 0, Evict, func(*Observation) {}, Started, "Migration evict-uid-1 moves"},
		{"one has failed", 1, Evict, func(*Observation) {}, Started, "Migration evict-uid-2 moves"},
		{"one has failed, and is there", 1, Evict, migration("evict-uid-1", v1alpha1.MigrationRolledBack), Started, "Migration evict-uid-2 moves"},
		{"two have failed, and are gone", 2, Evict, func(*Observation) {}, Failed, "loses its state if it is evicted, because it could not be moved: 2 Migrations of the pod have failed"},
		{"two have failed, and one is there", 2, Evict, migration("evict-uid-2", v1alpha1.MigrationRolledBack), Failed, "Migration evict-uid-2 has ended: why it ended"},
		{"two have failed, and it is to stay", 2, Keep, func(*Observation) {}, Failed, "--eviction-after-failure=Keep refuses its eviction: 2 Migrations of the pod have failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := seen()
			for n := range tc.failed {
				o.Pod = attempts.Note(o.Pod, &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("evict-uid-%d", n+1), UID: types.UID(fmt.Sprint(n))}}, now)
			}
			tc.change(&o)
			c := config
			c.AfterFailure = tc.after
			a := Reply(c, o, now)
			said := a.Warning
			if a.Status != nil {
				said = a.Status.Message
			}
			if a.Outcome != tc.want || !strings.Contains(said, tc.says) {
				t.Errorf("%s: %s; want %s: %s", a.Outcome, said, tc.want, tc.says)
			}
			if later := Reply(c, o, now.Add(attempts.Lasts)); len(o.Migrations) == 0 && later.Outcome != Started {
				t.Errorf("a day later: %s", later.Outcome)
			}
		})
	}
}
