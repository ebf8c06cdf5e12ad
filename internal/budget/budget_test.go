package budget

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func healthyPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web"}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func allows(disruptions int32, change ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Generation: 2},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 2, DisruptionsAllowed: disruptions, DesiredHealthy: 3, CurrentHealthy: 3 + disruptions, ExpectedPods: 3 + disruptions,
		},
	}
	for _, c := range change {
		c(b)
	}
	return b
}

func claimedAt(age time.Duration) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptedPods = map[string]metav1.Time{"a": metav1.NewTime(now.Add(-age))}
	}
}

func TestABudgetAnswersAsTheEvictionAPIDoes(t *testing.T) {
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	always := func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow) }
	few := func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy = 2 }
	for _, tc := range []struct {
		name    string
		budget  *policyv1.PodDisruptionBudget
		pod     func(*corev1.Pod)
		refused string // part of the refusal
		left    int32  // disruptions allowed after the claim; -1 for nothing to write
	}{
		{"one of two is taken", allows(2), nil, "", 1},
		{"the last is taken", allows(1), nil, "", 0},
		{"there is none", allows(0), nil, "web needs 3 healthy pods and has 3 currently", -1},
		{"a budget that has changed and was not checked", allows(1, func(b *policyv1.PodDisruptionBudget) { b.Generation = 3 }), nil, "still being processed", -1},
		{"a budget below nothing", allows(-1), nil, "negative", -1},
		{"the pod has a claim", allows(0, claimedAt(time.Second)), nil, "", -1},
		{"the pod has a claim that grows old", allows(0, claimedAt(time.Minute)), nil, "", 0},
		{"the pod has a claim that has run out", allows(0, claimedAt(Lasts)), nil, "needs 3 healthy pods", -1},
		{"a claim that has run out is made again", allows(2, claimedAt(Lasts)), nil, "", 1},
		{"an unhealthy pod beside enough healthy ones", allows(0), unready, "", -1},
		{"an unhealthy pod that may always go", allows(0, few, always), unready, "", -1},
		{"an unhealthy pod beside too few", allows(0, few), unready, "has 2 currently", -1},
		{"a pod without the condition Ready", allows(0, few), func(p *corev1.Pod) { p.Status.Conditions = nil }, "has 2 currently", -1},
		{"an unhealthy pod of a budget that wants none", allows(0, func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy = 0 }), unready, "needs 0", -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod, before := healthyPod("a"), tc.budget.DeepCopy()
			if tc.pod != nil {
				tc.pod(pod)
			}
			got := Claim(tc.budget, pod, now)
			if (got.Refused != "") != (tc.refused != "") || !strings.Contains(got.Refused, tc.refused) {
				t.Errorf("it says %q, want %q", got.Refused, tc.refused)
			}
			left := int32(-1)
			if got.Write != nil {
				left = got.Write.Status.DisruptionsAllowed
				if at := got.Write.Status.DisruptedPods["a"]; !at.Time.Equal(now) {
					t.Errorf("the pod is noted at %v", at)
				}
			}
			if left != tc.left {
				t.Errorf("%d disruptions are left, want %d", left, tc.left)
			}
			if diff := cmp.Diff(before, tc.budget); diff != "" {
				t.Errorf("the budget that was checked has changed (-was +is):\n%s", diff)
			}
		})
	}
}

func TestTheLastDisruptionIsSaidInTheCondition(t *testing.T) {
	got := Claim(allows(1), healthyPod("a"), now).Write
	if c := got.Status.Conditions; len(c) != 1 || c[0].Type != policyv1.DisruptionAllowedCondition || c[0].Status != metav1.ConditionFalse {
		t.Errorf("conditions %+v", c)
	}
}

func TestTooManyNotesAreForbidden(t *testing.T) {
	b := allows(1)
	b.Status.DisruptedPods = map[string]metav1.Time{}
	for i := range mostNotes {
		b.Status.DisruptedPods[fmt.Sprint("other-", i)] = metav1.NewTime(now)
	}
	if got := Claim(b, healthyPod("a"), now); got.Write == nil {
		t.Errorf("with as many as the eviction API allows: answer %+v", got)
	}
	b.Status.DisruptedPods["one more"] = metav1.NewTime(now)
	if got := Claim(b, healthyPod("a"), now); !got.Forbidden || got.Write != nil {
		t.Errorf("answer %+v", got)
	}
}

func TestAReleaseTakesTheNoteOut(t *testing.T) {
	b := allows(0, claimedAt(0))
	if got := Release(b, healthyPod("a")); got == nil || len(got.Status.DisruptedPods) != 0 || len(b.Status.DisruptedPods) != 1 {
		t.Errorf("released %+v of %+v", got, b.Status)
	}
	if got := Release(b, healthyPod("other")); got != nil {
		t.Errorf("a pod without a claim releases %+v", got.Status)
	}
}

func TestAPodCountsForTheBudgetsOfItsNamespaceThatSelectIt(t *testing.T) {
	named := func(name string, change func(*policyv1.PodDisruptionBudget)) policyv1.PodDisruptionBudget {
		b := allows(1, change)
		b.Name = name
		return *b
	}
	all := []policyv1.PodDisruptionBudget{
		named("z", func(*policyv1.PodDisruptionBudget) {}),
		named("everything", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }),
		named("nothing", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }),
		named("elsewhere", func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" }),
		named("others", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "db" }),
		named("broken", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
		}),
	}
	var names []string
	for _, b := range Of(all, healthyPod("a")) {
		names = append(names, b.Name)
	}
	if diff := cmp.Diff([]string{"everything", "z"}, names); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
}

func TestPodsOnWhichNoBudgetCounts(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		corev1.PodRunning: false, corev1.PodUnknown: false, corev1.PodPending: true, corev1.PodSucceeded: true, corev1.PodFailed: true,
	} {
		pod := healthyPod("a")
		pod.Status.Phase = phase
		if got := Ignores(pod); got != want {
			t.Errorf("a pod that is %s: %v, want %v", phase, got, want)
		}
		pod.DeletionTimestamp = &metav1.Time{Time: now}
		if !Ignores(pod) {
			t.Errorf("a pod that is %s and goes counts", phase)
		}
	}
}

// TestNoMoreIsClaimedThanThereIs: in any order of claims, a budget never allows more than it has,
// and no pod claims two.
func TestNoMoreIsClaimedThanThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		has := rapid.Int32Range(0, 5).Draw(t, "has")
		b := allows(has)
		claimed := map[string]bool{}
		at := now
		for _, name := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d"})).Draw(t, "asked by") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "pause")))
			got := Claim(b, healthyPod(name), at)
			if got.Write != nil {
				b = got.Write
			}
			if got.Refused == "" {
				claimed[name] = true
			}
		}
		if int32(len(claimed)) > has || b.Status.DisruptionsAllowed != has-int32(len(claimed)) || len(b.Status.DisruptedPods) != len(claimed) {
			t.Fatalf("of %d, %v are claimed; %d are left, noted %v", has, claimed, b.Status.DisruptionsAllowed, b.Status.DisruptedPods)
		}
	})
}

func TestAClaimThatIsKeptDoesNotLapse(t *testing.T) {
	at := func(age time.Duration) map[string]metav1.Time {
		return map[string]metav1.Time{"p": metav1.NewTime(now.Add(-age))}
	}
	for _, tc := range []struct {
		name    string
		noted   map[string]metav1.Time
		allowed int32
		ready   corev1.ConditionStatus
		write   bool
		due     time.Time
		left    int32
	}{
		{"a fresh claim", at(10 * time.Second), 1, corev1.ConditionTrue, false, now.Add(20 * time.Second), 1},
		{"one that is due", at(30 * time.Second), 1, corev1.ConditionTrue, true, time.Time{}, 1},
		{"one that has lapsed and is still noted", at(time.Hour), 1, corev1.ConditionTrue, true, time.Time{}, 1},
		{"one that was removed", nil, 1, corev1.ConditionTrue, true, time.Time{}, 0},
		{"one that was removed, and no other is allowed", nil, 0, corev1.ConditionTrue, true, time.Time{}, 0},
		{"one that was removed, of a pod that does not count", nil, 1, corev1.ConditionFalse, false, time.Time{}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: tc.allowed, DisruptedPods: tc.noted}}
			before := b.DeepCopy()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: tc.ready}}}}
			write, due := Keep(b, pod, now)
			if (write != nil) != tc.write || !due.Equal(tc.due) {
				t.Fatalf("writes %v, due %s; want %v, %s", write, due, tc.write, tc.due)
			}
			if write != nil && (!write.Status.DisruptedPods["p"].Time.Equal(now) || write.Status.DisruptionsAllowed != tc.left) {
				t.Errorf("written %+v", write.Status)
			}
			if diff := cmp.Diff(before, b); diff != "" {
				t.Errorf("the budget was changed: %s", diff)
			}
		})
	}
}
