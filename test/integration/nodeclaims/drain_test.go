package nodeclaims

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testapi"
)

func TestAMachineThatIsTooLargeIsExchangedForASmallOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, "exchange")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10", "large,8,16,0.30")
	ever := b.claimsEver()
	b.fleet(func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.Policy = v1alpha1.ConsolidateWhenUnderUsed })
	for i := range 4 {
		b.movable(fmt.Sprintf("p%d", i))
	}
	b.wait(4)
	b.autoscale()
	b.Runs(4)
	b.becomes(map[string]int{"large": 1})
	for i := range 3 {
		b.removeSet(fmt.Sprintf("p%d", i))
	}
	b.becomes(map[string]int{"small": 1})
	b.Runs(1)
	// An exchange that was decided while two pods were left orders two machines, but at once.
	names := ever()
	orders := map[string]bool{}
	for _, name := range names {
		orders[name[:strings.LastIndex(name, "-")]] = true
	}
	if len(orders) != 2 {
		t.Errorf("NodeClaims %q were created by %d orders, want two", names, len(orders))
	}
}

// Somebody deletes a NodeClaim whose node has a pod. Karpenter drains the node as far as the PodDisruptionBudget allows.
// The fleet buys another machine when the pod waits, and not before.
func TestKarpenterDrainsAMachineThatSomebodyElseReleases(t *testing.T) {
	t.Parallel()
	b := newBench(t, "drain")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10")
	ever := b.claimsEver()
	b.fleet()
	b.autoscale()
	b.movable("p")
	pod := b.Runs(1)[0]
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "none"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "p"}}},
	}
	b.Make(budget)
	b.Eventually("the budget is known", func() string {
		if b.Read("none", budget); budget.Status.ObservedGeneration == 0 {
			return "it is not"
		}
		return ""
	})
	b.deleteClaim(b.orders("small"))
	b.Eventually("Karpenter drains the node", func() string {
		for _, n := range b.Nodes() {
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "karpenter.sh/disrupted" }) {
				return ""
			}
		}
		return "it has no taint of Karpenter"
	})
	b.HasEvent("Node", pod.Spec.NodeName, "FailedDraining", "")
	if p := b.Runs(1)[0]; p.UID != pod.UID {
		t.Error("the pod was evicted although its budget does not allow that")
	}
	if names := ever(); len(names) != 1 {
		t.Errorf("NodeClaims %q were created while the pod runs, want one", names)
	}
	testapi.Delete(t, b, budget)
	b.Eventually("another pod runs", func() string {
		if all := b.Running(); len(all) != 1 || all[0].UID == pod.UID {
			return fmt.Sprintf("%d run", len(all))
		}
		return ""
	})
	b.becomes(map[string]int{"small": 1})
	if names := ever(); len(names) != 2 {
		t.Errorf("NodeClaims %q were created, want two", names)
	}
}

// Somebody takes a NodeClaim away from the fleet, which then buys nothing for the pods that still run, and does not
// release the machine.
func TestANodeClaimWithoutTheLabelIsNoLongerTheFleets(t *testing.T) {
	t.Parallel()
	b := newBench(t, "taken")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10")
	b.fleet()
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.Runs(1)
	c := b.orders("small")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"supercargo.dev/fleet":null}}}`))
	if err := b.Patch(t.Context(), c, patch); err != nil {
		t.Fatal(err)
	}
	b.Eventually("the fleet has no machine", func() string {
		var f v1alpha1.NodeFleet
		if b.Read(b.Space, &f); f.Status.Machines != 0 {
			return fmt.Sprintf("it has %d", f.Status.Machines)
		}
		return ""
	})
	b.pods("q", 1, "1900m", "1Gi") // the fleet decides about it with the other machine in view
	b.Runs(2)
	b.removePods()
	b.Eventually("the fleet has released its own machine", func() string {
		if n := len(b.nodeClaims()); n != 0 {
			return fmt.Sprintf("%d NodeClaims", n)
		}
		return ""
	})
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil || c.GetDeletionTimestamp() != nil {
		t.Errorf("the NodeClaim that was taken away: %v, deleted %v", err, c.GetDeletionTimestamp())
	}
	b.deleteClaim(c)
}

// movable creates a ReplicaSet of one batch pod that may be evicted.
func (b *bench) movable(name string) {
	b.Helper()
	pod := b.pod("", "1900m", "1Gi")
	pod.Labels = map[string]string{"app": name, v1alpha1.LabelClass: "batch"}
	pod.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationRestart}
	b.Make(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
	}})
}

// removeSet deletes a ReplicaSet with its pod.
func (b *bench) removeSet(name string) {
	b.Helper()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name}}
	if err := b.Delete(b.Context(), set, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		b.Fatal(err)
	}
}
