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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestADrainThatFailsDoesNotKeepMachinesFromBeingBought has an admission policy that denies evictions.
func TestADrainThatFailsDoesNotKeepMachinesFromBeingBought(t *testing.T) {
	t.Parallel()
	b := newBench(t, "podsstay")
	b.flavor("m", "4", "8Gi", "0.16", begins(1))
	b.room()
	b.put(b.named("m", 1)[0], "guarded", "500m", "1Gi", func(p *corev1.Pod) { p.Labels["app"] = "guarded" })
	b.Runs(2)
	b.noEvictions("guarded")
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
	b.deny(admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Update},
		Rule: admissionv1.Rule{
			APIGroups: []string{machineDeployments.Group}, APIVersions: []string{"*"}, Resources: []string{"machinedeployments", "machinedeployments/scale"},
		},
	}, fmt.Sprintf("request.name.startsWith('%s-')", b.Space), admissionv1.Validation{
		Expression: fmt.Sprintf(replicas, "object") + " >= " + fmt.Sprintf(replicas, "oldObject"), Message: "machines stay",
	})
	b.Eventually("the policy is in force", func() string {
		if err := b.tryPatchDeployment(b.Context(), flavor, `{"spec":{"replicas":0}}`, client.DryRunAll); err == nil {
			return "a MachineDeployment may be scaled down"
		}
		return ""
	})
}

// noEvictions makes an admission policy reject evictions of the pods of the bench, and waits until it is in force for one
// of them.
func (b *bench) noEvictions(pod string) {
	b.Helper()
	b.deny(admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}},
	}, fmt.Sprintf("request.namespace == '%s'", b.Space), admissionv1.Validation{Expression: "false", Message: "pods stay"})
	b.Eventually("the policy is in force", func() string {
		guarded := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: pod}}
		dry := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}}
		if err := b.SubResource("eviction").Create(b.Context(), guarded, dry); err == nil || !strings.Contains(err.Error(), "pods stay") {
			return fmt.Sprintf("an eviction ends with %v", err)
		}
		return ""
	})
}

// deny makes an admission policy until the end of the test: requests as in the rule for which the condition holds are
// denied unless they are valid.
func (b *bench) deny(rule admissionv1.RuleWithOperations, condition string, validation admissionv1.Validation) {
	b.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: b.Space},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}}},
			MatchConditions:  []admissionv1.MatchCondition{{Name: "bench", Expression: condition}},
			Validations:      []admissionv1.Validation{validation},
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
