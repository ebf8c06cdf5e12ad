//go:build !kubernetes1.36

package checkpointstaging

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func preflightStatus(t *testing.T, p *Plugin, pod *corev1.Pod) *fwk.Status {
	t.Helper()
	return p.PreBindPreFlight(t.Context(), framework.NewCycleState(), pod, "agentless")
}
