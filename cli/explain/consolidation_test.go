package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestADecisionAboutNodesIsSaidInLines(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	var got strings.Builder
	err := Consolidation(&got, &v1alpha1.ConsolidationStatus{
		Time: &at, Mode: "Act", Policy: "CostAware", DollarsPerHour: "0.30", ExpectedDollarsPerHour: "0.10", Nodes: 3,
		Emptying: []string{"b"}, Emptied: []string{"c"}, Omitted: 2,
		Drains: []v1alpha1.ConsolidationDrain{{Node: "b", Time: at, Reason: "it is dear", Pods: []v1alpha1.ConsolidationMove{
			{Pod: "jobs/p", Method: "migrate", Target: "a", Reason: "cheapest"}, {Pod: "jobs/q", Method: "wait"},
		}}},
		Energy: []v1alpha1.EnergyMove{{Time: at, Pod: "jobs/r", From: "a", Target: "d", Method: "Checkpoint", Reason: "jobs/r scores 90"}},
		Kept:   []v1alpha1.Rejection{{Name: "a", Reason: "it receives pods of other nodes"}},
	})
	want := strings.TrimPrefix(`
Consolidation, mode Act, policy CostAware, as of 2026-01-01 12:00:00
3 nodes; those that are not emptied cost $0.30/h, and $0.10/h after all decisions are carried out
Being emptied: b
Emptied: c

b, chosen at 12:00:00: it is dear
  migrate  jobs/p (room on a): cheapest
  wait     jobs/q

Pods that are better suited to other machines, as of 12:00:00:
  Checkpoint jobs/r from a to d: jobs/r scores 90

Nodes that are kept:
  a: it receives pods of other nodes
2 more are not listed
`, "\n")
	if diff := cmp.Diff(want, got.String()); err != nil || diff != "" {
		t.Errorf("%v, text (-want +got):\n%s", err, diff)
	}
}
