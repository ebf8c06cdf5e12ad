package nodefleet

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestPodsLeaveAMachineThatIsAboutToBeTaken has a fleet that drains no machine for any other reason.
func TestPodsLeaveAMachineThatIsAboutToBeTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, "notices")
	b.flavor("m", "4", "8Gi", "0.16", begins(1))
	node := b.named("m", 1)[0]
	b.deployment("web", 2, "700m", "1Gi")
	b.Runs(2)
	b.fleet("all", defaultConsolidation, func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.Policy = v1alpha1.ConsolidateNever })
	b.autoscale()
	const notice = `{"spec":{"taints":[{"key":"aws-node-termination-handler/spot-itn","effect":"NoSchedule"}]}}`
	if err := b.Patch(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(notice))); err != nil {
		t.Fatal(err)
	}

	b.Eventually("the machine is replaced", func() string {
		if left := len(b.podsOn(node)); left > 0 || len(b.Running()) != 2 {
			return fmt.Sprintf("%d pods are on the node, and %d run", left, len(b.Running()))
		}
		return ""
	})
	b.becomes(map[string]int{"m": 1})
	if message := b.event("MachineInterrupted"); !strings.Contains(message, node) || !strings.Contains(message, "spot-itn") {
		t.Errorf("the event says %q", message)
	}
}
