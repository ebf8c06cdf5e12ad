package timebin_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

// TestJobsGoBesideServicesRatherThanKeepOtherNodesLonger has the scheduler choose between a tight empty node and a wide
// one with a pod on it.
func TestJobsGoBesideServicesRatherThanKeepOtherNodesLonger(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	owned := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: &yes}}
		}
	}
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		job    string // its runtime
		want   string
	}{
		{"a service keeps its node", owned("ReplicaSet"), "1h", "wide"},
		{"a pod of a DaemonSet does not", owned("DaemonSet"), "1h", "tight"},
		{"nor does a static pod", owned("Node"), "1h", "tight"},
		{"a long job, too", fixtures.Batch("2h"), "1h", "wide"},
		{"a job of less than a cycle takes the tight node, which it does not keep", owned("ReplicaSet"), "4m", "tight"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clocktesting.NewFakeClock(noon))
			s.AddNode(fixtures.Node("tight", 4000, 4<<30))
			s.AddNode(fixtures.Node("wide", 8000, 32<<30))
			there := fixtures.Pod("there", 100, 1<<30, tc.change)
			there.Spec.NodeName, there.CreationTimestamp.Time = "wide", noon
			if err := s.AddPod(there); err != nil {
				t.Fatal(err)
			}
			if _, a := s.Place(fixtures.Pod("job", 100, 1<<30, fixtures.Batch(tc.job))); a.Node != tc.want {
				t.Errorf("the job is on %q (%v), want %q", a.Node, a.Err, tc.want)
			}
		})
	}
}
