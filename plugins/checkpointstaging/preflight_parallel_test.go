//go:build kubernetes1.36

package checkpointstaging

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func preflightStatus(t *testing.T, p *Plugin, pod *corev1.Pod) *fwk.Status {
	t.Helper()
	result, status := p.PreBindPreFlight(t.Context(), framework.NewCycleState(), pod, "agentless")
	if result != nil && result.AllowParallel {
		t.Error("the PreBind of others may run beside ours, which holds the pod until it can start")
	}
	return status
}
