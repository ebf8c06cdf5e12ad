package world

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// StartupTaint reports whether a taint with that key says by its name that its node is still
// starting: those of Kubernetes and cluster-api, and those that are named for
// cluster-autoscaler.
func StartupTaint(key string) bool {
	switch key {
	case corev1.TaintNodeNotReady, "node.cluster.x-k8s.io/uninitialized", "node.cloudprovider.kubernetes.io/uninitialized":
		return true
	}
	return strings.HasPrefix(key, "startup-taint.cluster-autoscaler.kubernetes.io/") || strings.HasPrefix(key, "ignore-taint.cluster-autoscaler.kubernetes.io/")
}

// stateTaint reports whether a taint tells of a state in which a node may be at any time.
func stateTaint(key string) bool {
	return strings.HasPrefix(key, "node.kubernetes.io/") || strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/") ||
		strings.HasPrefix(key, "node.cluster.x-k8s.io/") || strings.HasPrefix(key, "status-taint.cluster-autoscaler.kubernetes.io/") ||
		strings.HasPrefix(key, v1alpha1.GroupName+"/") || key == "DeletionCandidateOfClusterAutoscaler" || key == "ToBeDeletedByClusterAutoscaler"
}

// Starting returns the taints that keep pods away from a node until it has started. Such are those of [StartupTaint], and others that are not among the lasting ones of
// machines of its kind: the drivers of storage, networks and devices have their nodes
// tainted until they run, each with a key of its own.
func Starting(node *corev1.Node, lasting []corev1.Taint) []corev1.Taint {
	var found []corev1.Taint
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if StartupTaint(t.Key) || !stateTaint(t.Key) && !HasTaint(lasting, t) {
			found = append(found, *t)
		}
	}
	return found
}

// HasTaint reports whether a taint with the same key and effect is among others.
func HasTaint(among []corev1.Taint, t *corev1.Taint) bool {
	return slices.ContainsFunc(among, func(o corev1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
}

// Lasting returns the taints of a node that keep pods away as long as it is there: not those of its
// start, of a state in which it is, or that only are a preference.
func Lasting(node *corev1.Node) []corev1.Taint {
	var all []corev1.Taint
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !StartupTaint(t.Key) && !stateTaint(t.Key) {
			all = append(all, t)
		}
	}
	return all
}
