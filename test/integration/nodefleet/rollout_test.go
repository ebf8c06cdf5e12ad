package nodefleet

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestTheMachineThatARolloutAddsIsNotReleased has a rolling update that cannot end, because a PodDisruptionBudget keeps
// the pod on the old machine. The new machine is empty meanwhile. If the fleet released it, cluster-api would shrink
// both MachineSets to nothing, and delete the old machine with its pod.
func TestTheMachineThatARolloutAddsIsNotReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, "rollout")
	b.flavor("small", "2", "4Gi", "0.10")
	b.flavor("large", "8", "16Gi", "0.90")
	b.fleet("all")
	b.pods("stays", 1, "1500m", "1Gi", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "stays"} })
	b.wait(1)
	b.autoscale()
	b.Runs(1)
	b.budget("stays", 1, 0)
	b.patchDeployment("small", `{"spec":{"template":{"spec":{"version":"v1.35.99"}}}}`)
	b.becomes(map[string]int{"small": 2})
	b.Eventually("the old machine is being deleted", func() string {
		for _, m := range b.machines() {
			if m.GetDeletionTimestamp() != nil {
				return ""
			}
		}
		return fmt.Sprint(len(b.machines()), " machines, none of them is")
	})

	// A large machine comes and goes, so that the fleet has decided about all machines for as long.
	b.pods("other", 1, "7", "1Gi")
	b.Runs(2)
	testapi.Delete(t, b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "other-000"}})
	b.becomes(map[string]int{"small": 2})
	if diff := cmp.Diff(map[string]int{"small": 1}, b.replicas()); diff != "" {
		t.Errorf("replicas during the rollout (-want +got):\n%s", diff)
	}
	if running := len(b.Running()); running != 1 {
		t.Errorf("%d pods run, want the one that stays", running)
	}

	// When the rollout has ended, the fleet releases again: the pod has no controller that would create it anew.
	testapi.Delete(t, b, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "stays"}})
	b.becomes(map[string]int{})
}
