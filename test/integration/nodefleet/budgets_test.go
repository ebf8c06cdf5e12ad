package nodefleet

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestABudgetKeepsEmptyMachinesWhileItApplies has budgets of which the first never applies, because its schedule is a day
// that does not exist.
func TestABudgetKeepsEmptyMachinesWhileItApplies(t *testing.T) {
	t.Parallel()
	b := newBench(t, "budgets")
	b.flavor("a", "2", "4Gi", "0.10", begins(2))
	never, hour := "0 0 30 2 *", &metav1.Duration{Duration: time.Hour}
	budgets := func(reason v1alpha1.FleetBudgetReason, nodes string) []v1alpha1.FleetBudget {
		return []v1alpha1.FleetBudget{
			{Nodes: "0", Schedule: &never, Duration: hour},
			{Nodes: nodes, Reasons: []v1alpha1.FleetBudgetReason{reason}},
		}
	}
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.Budgets = budgets(v1alpha1.BudgetEmpty, "0") })
	b.becomes(map[string]int{"a": 2})
	b.autoscale()
	b.Eventually("status.kept names the budget", func() string {
		kept := b.get("all").Status.Kept
		for _, k := range kept {
			if strings.Contains(k.Reason, "spec.consolidation.budgets[1] allows no more") {
				return ""
			}
		}
		return b.show()
	})
	b.has("all", v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonBudgetInvalid)
	b.becomes(map[string]int{"a": 2})
	daily := "61 0 * * *"
	b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.Budgets[0].Schedule = &daily })
	b.HasEvent("NodeFleet", b.Space+"-all", v1alpha1.FleetReasonBudgetInvalid, `budgets[0].schedule "61 0 * * *" is invalid, so the budget applies at all times`)
	b.becomes(map[string]int{"a": 2})
	b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.Budgets = budgets(v1alpha1.BudgetUnderUsed, "0") })
	b.becomes(map[string]int{})
}
