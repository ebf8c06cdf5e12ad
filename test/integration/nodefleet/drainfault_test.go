package nodefleet

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestADrainThatFailsDoesNotKeepMachinesFromBeingBought has a pod with two PodDisruptionBudgets, both of
// which allow its eviction. The API server answers this with an internal error.
func TestADrainThatFailsDoesNotKeepMachinesFromBeingBought(t *testing.T) {
	t.Parallel()
	b := newBench(t, "twobudgets")
	b.flavor("m", "4", "8Gi", "0.16", begins(1))
	b.room()
	b.put(b.named("m", 1)[0], "guarded", "500m", "1Gi", func(p *corev1.Pod) { p.Labels["app"] = "guarded" })
	b.Runs(2)
	b.budget("guarded", 0, 1)
	second := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "second"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		},
	}
	b.Make(second)
	b.Eventually("both budgets allow for an eviction", func() string {
		var all policyv1.PodDisruptionBudgetList
		testapi.List(b, b, &all)
		for _, p := range all.Items {
			if p.Namespace == b.Space && p.Status.DisruptionsAllowed < 1 {
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
	b.has("all", v1alpha1.FleetDegraded, metav1.ConditionTrue, "DrainFailed")
	b.pods("p", 1, "30", "1Gi")
	b.Runs(3)
	b.becomes(map[string]int{"m": 1, "room": 2})
}

// neverScaleDown makes an admission policy reject fewer replicas for the MachineDeployments of the bench, and
// waits until it is in force.
func (b *bench) neverScaleDown(flavor string) {
	b.Helper()
	const replicas = "(has(%[1]s.spec.replicas) ? %[1]s.spec.replicas : 0)" // a Scale omits replicas if they are 0
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: b.Space},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule: admissionv1.Rule{
					APIGroups: []string{machineDeployments.Group}, APIVersions: []string{"*"}, Resources: []string{"machinedeployments", "machinedeployments/scale"},
				},
			}}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "bench", Expression: fmt.Sprintf("request.name.startsWith('%s-')", b.Space)}},
			Validations:     []admissionv1.Validation{{Expression: fmt.Sprintf(replicas, "object") + " >= " + fmt.Sprintf(replicas, "oldObject"), Message: "machines stay"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: b.Space},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: b.Space, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	for _, object := range []client.Object{policy, binding} {
		b.Make(object)
		b.Cleanup(func() {
			if err := b.Delete(context.WithoutCancel(b.Context()), object); client.IgnoreNotFound(err) != nil {
				b.Errorf("delete %T %s: %v", object, object.GetName(), err)
			}
		})
	}
	b.Eventually("the policy is in force", func() string {
		if err := b.tryPatchDeployment(b.Context(), flavor, `{"spec":{"replicas":0}}`, client.DryRunAll); err == nil {
			return "a MachineDeployment may be scaled down"
		}
		return ""
	})
}

// TestAReleaseThatFailsDoesNotKeepMachinesFromBeingBought has an admission policy that prevents the release
// of machines.
func TestAReleaseThatFailsDoesNotKeepMachinesFromBeingBought(t *testing.T) {
	t.Parallel()
	b := newBench(t, "machinesstay")
	b.flavor("m", "4", "8Gi", "0.16", begins(1))
	b.flavor("large", "16", "32Gi", "0.64")
	b.named("m", 1)
	b.neverScaleDown("m")
	b.fleet("all")
	b.autoscale()
	if note := b.event("ReleaseFailed"); !strings.Contains(note, "machines stay") {
		t.Errorf("the Event says %q", note)
	}
	b.has("all", v1alpha1.FleetDegraded, metav1.ConditionTrue, "ReleaseFailed")
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	b.pods("p", 1, "8", "1Gi")
	b.Runs(1)
	b.becomes(map[string]int{"m": 1, "large": 1})
}
