package migrationdecide

import (
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// budgeted gives the pods of a world a budget that allows a number of disruptions.
func (w *world) budgeted(disruptions int32) {
	w.budgets = []policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: disruptions, DesiredHealthy: 1, CurrentHealthy: 1 + disruptions},
	}}
}

// claimed returns whether the old pod is claimed from the budget, and how many more disruptions
// that allows.
func (w *world) claimed() (bool, int32) {
	s := &w.budgets[0].Status
	_, noted := s.DisruptedPods[source]
	return noted, s.DisruptionsAllowed
}

// toFreeze runs a world with a budget until the pod is about to be frozen.
func toFreeze(t *testing.T, disruptions int32) *world {
	t.Helper()
	w := on(t, ofJob, next(CreatePod))
	w.budgeted(disruptions)
	for range 20 {
		w.controller()
		w.scheduler()
		w.sourceAgent()
		w.targetAgent(nodeB)
	}
	return w
}

func TestAPodIsClaimedFromItsBudgetBeforeItIsFrozen(t *testing.T) {
	w := toFreeze(t, 1)
	if noted, left := w.claimed(); !noted || left != 0 {
		t.Errorf("the pod is noted: %v, %d disruptions are left", noted, left)
	}
	if w.m.Status.Order != v1alpha1.OrderFreeze {
		t.Errorf("it does not continue: %+v", w.m.Status)
	}
}

func TestABudgetAtItsLimitIsWaitedForUntilTheDeadline(t *testing.T) {
	w := toFreeze(t, 0)
	c := condition(&w.m.Status, v1alpha1.MigrationReserved)
	if w.m.Status.Order != v1alpha1.OrderPrepare || HandingOver(w.m) || c.Reason != v1alpha1.MigrationReasonOverBudget || !strings.Contains(c.Message, "budget b needs 1 healthy pods") {
		t.Fatalf("%s, %+v", w.m.Status.Order, c)
	}
	if step := w.decide(); step.Do != Wait || !step.Until.Equal(w.now.Add(budgetPatience)) {
		t.Errorf("%+v, want to evaluate again in %s", step, budgetPatience)
	}
	w.now = w.now.Add(6 * time.Minute)
	if step := w.decide(); step.Do != WriteStatus || condition(step.Status, v1alpha1.MigrationFinished).Reason != "DeadlineExceeded" {
		t.Errorf("after the deadline %+v", step)
	}
}

func TestTheClaimOfTheEvictionIsUsed(t *testing.T) {
	w := on(t, ofJob, next(CreatePod))
	w.budgeted(0)
	w.budgets[0].Status.DisruptedPods = map[string]metav1.Time{source: metav1.NewTime(w.now)}
	for range 20 {
		w.controller()
		w.scheduler()
		w.sourceAgent()
		w.targetAgent(nodeB)
	}
	if _, left := w.claimed(); w.m.Status.Order != v1alpha1.OrderFreeze || left != 0 {
		t.Errorf("order %s, %d disruptions are left", w.m.Status.Order, left)
	}
}

func TestAPodThatStaysReturnsItsClaim(t *testing.T) {
	w := toFreeze(t, 1)
	w.nodes[nodeB].Spec.Unschedulable = true
	for range 60 {
		w.now = w.now.Add(time.Second)
		w.controller()
		w.kubelet(nodeB)
		w.scheduler()
		w.sourceAgent()
		w.targetAgent(nodeB)
	}
	if noted, _ := w.claimed(); noted || w.m.Status.Phase != v1alpha1.MigrationRolledBack {
		t.Errorf("it ends as %s, and the pod is noted: %v", w.m.Status.Phase, noted)
	}
}

func TestAPodThatIsRefusedReturnsItsClaim(t *testing.T) {
	w := newWorld(0, ofJob)
	w.budgeted(0)
	w.budgets[0].Status.DisruptedPods = map[string]metav1.Time{source: metav1.NewTime(w.now)}
	w.pods[source].Spec.HostNetwork = true
	w.controller()
	w.controller()
	if noted, _ := w.claimed(); noted || w.m.Status.Phase != v1alpha1.MigrationRefused {
		t.Errorf("it ends as %s, and the pod is noted: %v", w.m.Status.Phase, noted)
	}
}
