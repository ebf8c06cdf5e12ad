package nodefleet

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestADrainThatFailsDoesNotKeepMachinesFromBeingBought has a pod of two PodDisruptionBudgets,
// both of which allow for its eviction: the API server then answers with an internal error.
func TestADrainThatFailsDoesNotKeepMachinesFromBeingBought(t *testing.T) {
	t.Parallel()
	b := newBench(t, "twobudgets")
	b.flavor("m", "4", "8Gi", "0.16", begins(1))
	b.room()
	b.put(b.named("m", 1)[0], "guarded", "500m", "1Gi", func(p *corev1.Pod) { p.Labels["app"] = "guarded" })
	b.run(2)
	b.budget("guarded", 0, 1)
	second := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "second"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		},
	}
	b.make(second)
	b.eventually("both budgets allow for an eviction", func() string {
		var all policyv1.PodDisruptionBudgetList
		b.list(&all)
		for _, p := range all.Items {
			if p.Namespace == b.name && p.Status.DisruptionsAllowed < 1 {
				return p.Name + " does not"
			}
		}
		return ""
	})
	b.fleet("all", underUsed, func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.DrainTimeout = seconds(3600) })
	b.autoscale()
	if note := b.event("DrainFailed"); !strings.Contains(note, "guarded") {
		t.Errorf("the Event says %q", note)
	}
	b.has("all", v1alpha1.FleetDegraded, metav1.ConditionTrue, "DrainFails")
	b.pods("p", 1, "30", "1Gi")
	b.run(3)
	b.becomes(map[string]int{"m": 1, "room": 2})
}
