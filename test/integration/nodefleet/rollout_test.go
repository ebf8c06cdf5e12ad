package nodefleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestTheMachineThatARolloutAddsIsNotReleased has a rolling update: the new machine is empty while the pod is on the old
// one. If the fleet released the new one, cluster-api would shrink both MachineSets to nothing, and delete the old machine
// with its pod.
func TestTheMachineThatARolloutAddsIsNotReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, "rollout")
	b.flavor("small", "2", "4Gi", "0.10")
	b.flavor("large", "8", "16Gi", "0.90")
	b.fleet("all")
	b.pods("stays", 1, "1500m", "1Gi")
	b.wait(1)
	b.autoscale()
	b.Runs(1)
	b.patchDeployment("small", `{"spec":{"template":{"spec":{"version":"v1.35.99"}}}}`) // no newer than the control plane
	b.becomes(map[string]int{"small": 2})

	// A large machine comes and goes, so that the fleet has decided about all machines for as long.
	b.pods("other", 1, "7", "1Gi")
	b.Runs(2)
	testapi.Delete(t, b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "other-000"}})
	b.becomes(map[string]int{"small": 2})
	if diff := cmp.Diff(map[string]int{"small": 1}, b.replicas()); diff != "" {
		t.Errorf("replicas during the rollout (-want +got):\n%s", diff)
	}
	for _, n := range b.Nodes() {
		if n.Spec.Unschedulable {
			t.Errorf("node %s is cordoned", n.Name)
		}
	}
	if running := len(b.Running()); running != 1 {
		t.Errorf("%d pods run, want the one that stays", running)
	}
}
