package nodefleet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// replaced has a machine with a pod, makes something of its node a reason to replace it, and waits until the pod runs on
// another machine and the first one is gone. The second must be ordered while the first is there.
func replaced(t *testing.T, name string, set func(*v1alpha1.NodeFleetSpec), spoil func(b *bench, node *corev1.Node)) {
	b := newBench(t, name)
	b.flavor("small", "2", "4Gi", "0.10")
	b.fleet("all", set)
	b.autoscale()
	b.movable("p", "1900m", "1Gi")
	b.Runs(1)
	b.becomes(map[string]int{"small": 1})
	first := b.Nodes()[0]
	highest := b.highest()
	spoil(b, &first)
	b.Eventually("another machine has replaced the first", func() string {
		nodes := b.Nodes()
		if len(nodes) != 1 || nodes[0].Name == first.Name {
			return fmt.Sprintf("%d nodes, %s among them: %s", len(nodes), first.Name, b.show())
		}
		return ""
	})
	b.Runs(1)
	if _, together := highest(); together != 2 {
		t.Errorf("there were at most %d machines, want the new one beside the old one", together)
	}
	b.event("Exchange")
}

func TestAMachineWhoseNodeIsUnhealthyIsReplaced(t *testing.T) {
	t.Parallel()
	replaced(t, "unhealthy", func(s *v1alpha1.NodeFleetSpec) {
		s.Consolidation.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "KernelDeadlock", Status: corev1.ConditionTrue, Duration: metav1.Duration{Duration: time.Second}}}
	}, func(b *bench, node *corev1.Node) {
		before := node.DeepCopy()
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: "KernelDeadlock", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), Reason: "DockerHung",
		})
		if err := b.Status().Patch(b.Context(), node, client.StrategicMergeFrom(before)); err != nil {
			b.Fatal(err)
		}
	})
}
