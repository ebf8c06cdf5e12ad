package nodefleet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func batchClass(p *corev1.Pod) { p.Labels[v1alpha1.LabelClass] = "batch" }

// TestABatchPodThatNoMachineHoldsStopsNoRelease has one pod that selects a label that no flavor has, and one
// that selects the machines of another fleet, which arrive late.
func TestABatchPodThatNoMachineHoldsStopsNoRelease(t *testing.T) {
	t.Parallel()
	b := newBench(t, "queued")
	b.flavor("idle", "2", "4Gi", "0.10", begins(2))
	b.flavor("slow", "4", "8Gi", "0.10", comesAfter(5*time.Minute))
	b.named("idle", 2)
	b.pods("nowhere", 1, "1", "1Gi", batchClass, func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "none" })
	b.pods("elsewhere", 1, "3", "1Gi", batchClass)
	b.wait(2)
	for i, flavor := range []string{"idle", "slow"} {
		b.fleet([]string{"one", "two"}[i], b.names(flavor), func(s *v1alpha1.NodeFleetSpec) {
			s.Scaling.JoinTimeout, s.Scaling.ExpectedLag = seconds(600), seconds(300)
			s.Consolidation.QueueEmptyFor = seconds(10)
		})
	}
	b.autoscale()
	b.becomes(map[string]int{})
	b.wait(2)
	b.event("NoMachineFits")
}
