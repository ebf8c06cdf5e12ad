package fleetobserve

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// PassedOver returns why a fleet buys no machine for a pod whatever the pod needs, or "": the class of the pod, or its
// priority.
func PassedOver(pod *corev1.Pod, fleet *v1alpha1.NodeFleet) string {
	kind, _ := class.OfPod(pod) // an invalid label counts as no label
	if !fleetdecide.ClassOf(fleet.Spec.Class).Takes(kind) {
		return fmt.Sprintf("its machines accept only %s pods, and this pod is of class %v", strings.ToLower(string(fleet.Spec.Class)), kind)
	}
	if cutoff := fleet.Spec.Scaling.ExpendableBelow(); pod.Spec.Priority != nil && *pod.Spec.Priority < cutoff {
		return fmt.Sprintf("no machine is bought for a pod with priority %d, which is below %d (spec.scaling.expendablePodsPriorityCutoff)", *pod.Spec.Priority, cutoff)
	}
	return ""
}
