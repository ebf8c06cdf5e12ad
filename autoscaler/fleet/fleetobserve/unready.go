package fleetobserve

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/world"
)

// condemned reports whether a pod on an unready node ends with its machine and loses nothing by it, and after how long.
// It does so once it is being deleted and its grace period is over: the API server, the taint that evicts pods from
// unreachable nodes or a user has decided that it ends, and its kubelet must kill it. Until then it may still run,
// because an unreachable node says nothing about its containers. A pod that a Migration moves is not condemned: its
// state may be on the node.
func (o *Observation) condemned(pod *corev1.Pod) (after time.Duration, is bool) {
	if pod.DeletionTimestamp == nil || o.View.Moved(pod) {
		return 0, false
	}
	return max(0, pod.DeletionTimestamp.Sub(o.Now)), true
}

// Ended reports whether a pod ended with its node, if the node is dead.
func (o *Observation) Ended(pod *corev1.Pod) bool {
	after, is := o.condemned(pod)
	return is && after == 0
}

// remains returns the pods on an unready node that are not expendable. Of several pods that would be lost, it names the first by name, so that
// messages about the machine do not change.
func (o *Observation) remains(node string) fleetdecide.Remains {
	var found fleetdecide.Remains
	for _, p := range o.podsOn[node] {
		if o.View.Expendable(p) {
			continue
		}
		found.Pods++
		wait, is := o.condemned(p)
		if name := world.PodName(p); !is && (found.Lost == "" || name < found.Lost) {
			found.Lost = name
		}
		found.After = max(found.After, wait)
	}
	return found
}

// Dead reports whether the node of a machine has been unready for at least the join timeout: no kubelet carries out the
// deletion of pods on it.
func (o *Observation) Dead(m fleetdecide.Machine, node *corev1.Node) bool {
	m.NodeState = o.nodeState(node, "")
	return !m.NodeState.Ready && m.Unready(o.Now) >= joinTimeout(o.Self.Fleet, o.Self.Flavor(m.Flavor))
}

// unhealthy returns the first of the conditions that the node has had for long enough, for people; "" if it has none.
func unhealthy(node *corev1.Node, conditions []v1alpha1.UnhealthyCondition, now time.Time) string {
	for i := range conditions {
		bad := &conditions[i]
		for j := range node.Status.Conditions {
			c := &node.Status.Conditions[j]
			if string(c.Type) == bad.Type && c.Status == bad.Status && now.Sub(c.LastTransitionTime.Time) >= bad.Duration.Duration {
				return fmt.Sprintf("condition %s of its node has been %s for at least %v", bad.Type, bad.Status, bad.Duration.Duration)
			}
		}
	}
	return ""
}
