//go:build !kubernetes1.36

package checkpointstaging

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBindPreFlight runs before PreBind; see preflight.
func (p *Plugin) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	return preflight(pod)
}
