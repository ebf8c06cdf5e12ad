package migration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
)

// named sets the name of a pod.
func named(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name = name }
}

// oneAtATime limits a descheduler to one migration at a time.
func oneAtATime(o *app.Options) { o.Migrations.MaxMigrations = 1 }

// The agent of a node is silent while a pod there should be thawed, which can take any time. Others move
// meanwhile.
func TestAMigrationThatIsStuckDoesNotHoldOthersUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, "stuck", 3)
	b.agents.script(
		func(m *v1alpha1.Migration, r *v1alpha1.SourceReport) bool {
			return m.Name != "move-first" || r.Step != v1alpha1.SourceThawed
		},
		func(m *v1alpha1.Migration, r *v1alpha1.TargetReport) bool {
			if m.Name == "move-first" && r.Step == v1alpha1.TargetStaged {
				r.Step, r.Reason = v1alpha1.TargetFailed, "NoRoom"
			}
			return true
		})
	b.deschedule(oneAtATime, func(o *app.Options) { o.Migrations.CleanPatience = 2 * time.Second })
	b.Make(b.template(named("first")))
	b.Make(b.template(named("second")))
	b.Runs(2)
	first := b.move("first")
	b.is(first.Name, "goes back", phase(v1alpha1.MigrationRollingBack))
	b.move("second")
	b.ends("move-second", v1alpha1.MigrationSucceeded)
	b.Find(first.Name, first)
	if c := condition(first, v1alpha1.MigrationFrozen); c.Reason != "AgentNotReporting" || c.Status != metav1.ConditionTrue {
		t.Errorf("the first does not say what it waits for: %+v", c)
	}
	b.hasEvents(first, "AgentNotReporting")
	b.agents.script(silentAt(""), nil)
	b.ends(first.Name, v1alpha1.MigrationRolledBack)
}

func TestAMigrationThatFindsNoRoomEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t, "no-room-left", 3)
	b.agents.script(silentAt(v1alpha1.SourcePrepared), nil)
	b.deschedule(oneAtATime)
	b.Make(b.template(named("first")))
	b.Make(b.template(named("second")))
	b.Runs(2)
	b.move("first", func(s *v1alpha1.MigrationSpec) { s.Deadline = metav1.Duration{Duration: 24 * time.Hour} })
	b.is("move-first", "has begun", phase(v1alpha1.MigrationReserving))
	b.move("second", func(s *v1alpha1.MigrationSpec) { s.Deadline = metav1.Duration{Duration: 10 * time.Second} })
	b.is("move-second", "waits", phase(v1alpha1.MigrationPending))
	m := b.ends("move-second", v1alpha1.MigrationRolledBack)
	if c := condition(m, v1alpha1.MigrationFinished); !strings.Contains(c.Message, "DeadlineExceeded") || m.Status.Plan != nil {
		t.Errorf("%+v, and a plan: %+v", c, m.Status.Plan)
	}
}

// The disruption controller drops a claim after two minutes. Instead of waiting, the test backdates the claim
// of a frozen pod.
func TestTheClaimOfAFrozenPodIsRenewed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "claim", 3)
	b.agents.script(nil, stageNothing)
	b.deschedule()
	b.Make(b.template(named("first")))
	b.Make(b.template(named("second")))
	b.Runs(2)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "one"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}},
		},
	}
	b.Make(budget)
	b.move("first", func(s *v1alpha1.MigrationSpec) { s.Deadline = metav1.Duration{Duration: time.Hour} })
	b.is("move-first", "has frozen its pod", phase(v1alpha1.MigrationMoving))
	b.Find("one", budget)
	before := budget.DeepCopy()
	old := metav1.NewTime(time.Now().Add(-100 * time.Second).Truncate(time.Second))
	budget.Status.DisruptedPods = map[string]metav1.Time{"first": old}
	if err := b.Status().Patch(b.Context(), budget, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	b.Eventually("the claim is renewed", func() string {
		b.Find("one", budget)
		at, ok := budget.Status.DisruptedPods["first"]
		if !ok || at.Time.Before(old.Add(time.Minute)) {
			return fmt.Sprintf("%+v", budget.Status)
		}
		return ""
	})
	b.Eventually("no other pod may be evicted", func() string {
		if b.Find("one", budget); budget.Status.DisruptionsAllowed != 0 || budget.Status.ObservedGeneration != budget.Generation {
			return fmt.Sprintf("%+v", budget.Status)
		}
		return ""
	})
}
