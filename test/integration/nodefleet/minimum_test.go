package nodefleet

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestAFleetGrowsToTheMinimumOfAMachineDeployment has no pods.
func TestAFleetGrowsToTheMinimumOfAMachineDeployment(t *testing.T) {
	t.Parallel()
	const minSize = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	b := newBench(t, "minimum")
	b.flavor("a", "2", "4Gi", "0.10", func(s *spec) { s.Min = 2 })
	b.flavor("c", "2", "4Gi", "0.05")
	highest := b.highest()
	b.fleet("all")
	b.autoscale()
	b.becomes(map[string]int{"a": 2})
	if d := b.get("all").Status.LastDecision; d == nil || !strings.Contains(d.Summary, "buy 2 minimum-a to reach the minimum at $0.2") {
		t.Errorf("the decision is %+v", d)
	}
	b.annotate("a", minSize, "3")
	b.becomes(map[string]int{"a": 3})
	b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.Limits.Machines = new(int32(3)) })
	b.annotate("a", minSize, "4")
	if message := b.has("all", v1alpha1.FleetLimited, metav1.ConditionTrue, v1alpha1.FleetReasonLimitReached); !strings.Contains(message, "minimum of 4") {
		t.Errorf("condition Limited says %q", message)
	}
	b.annotate("a", minSize, "1")
	b.becomes(map[string]int{"a": 1}) // all are empty
	b.has("all", v1alpha1.FleetLimited, metav1.ConditionFalse, v1alpha1.FleetReasonWithinLimits)
	if each, together := highest(); together != 3 || each["c"] != 0 {
		t.Errorf("there were to be %v machines, want 3 of a", each)
	}
}
