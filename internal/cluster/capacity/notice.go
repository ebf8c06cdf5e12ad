package capacity

import (
	corev1 "k8s.io/api/core/v1"
)

// noticeTaints are the keys of the taints by which termination handlers, Karpenter and cluster-autoscaler announce that the
// machine of a node is about to be taken.
var noticeTaints = map[string]bool{
	"aws-node-termination-handler/spot-itn":                  true,
	"aws-node-termination-handler/asg-lifecycle-termination": true,
	"aws-node-termination-handler/scheduled-maintenance":     true,
	"aws-node-termination-handler/rebalance-recommendation":  true,
	"cloud.google.com/impending-node-termination":            true,
	"karpenter.sh/disrupted":                                 true,
	"ToBeDeletedByClusterAutoscaler":                         true,
}

// noticeConditions are the types of the conditions that announce the same if they are true: those of AKS.
var noticeConditions = map[corev1.NodeConditionType]bool{"PreemptScheduled": true, "TerminateScheduled": true}

// NoticeTaint reports whether the key of a taint announces that the machine of its node is about to be taken.
func NoticeTaint(key string) bool { return noticeTaints[key] }

// Notice returns what announces that the machine of a node is about to be taken, for people: the first such taint or condition
// of the node. It is empty if nothing does.
func Notice(node *corev1.Node) string {
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; noticeTaints[t.Key] {
			return "taint " + t.ToString()
		}
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; noticeConditions[c.Type] && c.Status == corev1.ConditionTrue {
			return "condition " + string(c.Type)
		}
	}
	return ""
}
