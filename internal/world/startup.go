package world

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/capacity"
)

// TaintToBeDeleted is the key of the taint that cluster-autoscaler sets on nodes that it is about to delete.
const TaintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// StartupTaint reports whether the key of a taint shows that its node is still starting: the keys of Kubernetes,
// cluster-api and Karpenter, and those with a startup prefix of cluster-autoscaler.
func StartupTaint(key string) bool {
	switch key {
	case corev1.TaintNodeNotReady, "node.cluster.x-k8s.io/uninitialized", "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered":
		return true
	}
	return strings.HasPrefix(key, "startup-taint.cluster-autoscaler.kubernetes.io/") || strings.HasPrefix(key, "ignore-taint.cluster-autoscaler.kubernetes.io/")
}

// Unstarted returns why a node has not started yet, or "". A node that is not ready may have failed after its start, so that
// alone is no reason. Unlike [Joined], it knows from Karpenter that the node is not initialized.
func Unstarted(node *corev1.Node) string {
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; t.Key != corev1.TaintNodeNotReady && StartupTaint(t.Key) {
			return "it has taint " + t.ToString()
		}
	}
	switch {
	case node.Status.Allocatable.Cpu().IsZero():
		return "its kubelet has not reported its capacity"
	case node.Labels["karpenter.sh/registered"] == "true" && node.Labels["karpenter.sh/initialized"] != "true":
		return "Karpenter has not initialized it"
	}
	return ""
}

// StateTaint reports whether a taint describes a state that a node may enter at any time.
func StateTaint(key string) bool {
	return strings.HasPrefix(key, "node.kubernetes.io/") || strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/") ||
		strings.HasPrefix(key, "node.cluster.x-k8s.io/") || strings.HasPrefix(key, "status-taint.cluster-autoscaler.kubernetes.io/") ||
		strings.HasPrefix(key, v1alpha1.GroupName+"/") || key == "DeletionCandidateOfClusterAutoscaler" || capacity.NoticeTaint(key)
}

// Starting returns the taints that keep pods off a node until it has started: those of [StartupTaint], and others that
// are not among the lasting taints of machines of its kind. Drivers of storage, networks and devices taint their nodes
// until they run, each with its own key.
func Starting(node *corev1.Node, lasting []corev1.Taint) []corev1.Taint {
	var found []corev1.Taint
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if StartupTaint(t.Key) || !StateTaint(t.Key) && !HasTaint(lasting, t) {
			found = append(found, *t)
		}
	}
	return found
}

// HasTaint reports whether among contains a taint with the key and effect of t.
func HasTaint(among []corev1.Taint, t *corev1.Taint) bool {
	return slices.ContainsFunc(among, func(o corev1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
}

// Lasting returns the taints that keep pods off a node as long as the node exists: not those of its start or of a
// temporary state, nor PreferNoSchedule.
func Lasting(node *corev1.Node) []corev1.Taint {
	var all []corev1.Taint
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !StartupTaint(t.Key) && !StateTaint(t.Key) {
			all = append(all, t)
		}
	}
	return all
}

// Goes reports whether a node is being deleted, or cluster-autoscaler is about to delete it.
func Goes(node *corev1.Node) bool {
	return node.DeletionTimestamp != nil || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == TaintToBeDeleted })
}
