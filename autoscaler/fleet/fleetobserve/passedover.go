package fleetobserve

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/world"
)

// PassedOver returns the unschedulable pods for which the fleet buys no machine, regardless of what they need, and why.
//
// Cost: O(pods).
func (o *Observation) PassedOver() (all []v1alpha1.Rejection) {
	for _, pod := range o.World.Pods {
		_, waits := world.Unschedulable(pod)
		if !waits || pod.Status.NominatedNodeName != "" || class.EveryNode(pod) || world.Restoring(pod) {
			continue
		}
		if why := PassedOver(pod, o.Self.Fleet); why != "" {
			all = append(all, v1alpha1.Rejection{Name: world.PodName(pod), Reason: why})
		}
	}
	return all
}

// PassedOver returns why a fleet buys no machine for a pod regardless of what it needs, or "": the class of the pod, or its
// priority.
func PassedOver(pod *corev1.Pod, fleet *v1alpha1.NodeFleet) string {
	kind, _ := class.OfPod(pod) // an invalid label counts as no label
	if !fleetdecide.ClassOf(fleet.Spec.Class).Takes(kind) {
		return fmt.Sprintf("its machines accept only %s pods, and this pod is of class %v", strings.ToLower(string(fleet.Spec.Class)), kind)
	}
	if cutoff := fleet.Spec.Scaling.ExpendableBelow(); pod.Spec.Priority != nil && *pod.Spec.Priority < cutoff {
		return fmt.Sprintf("its priority is %d, and no machine is bought for pods below %d (spec.scaling.expendablePodsPriorityCutoff)", *pod.Spec.Priority, cutoff)
	}
	return ""
}
