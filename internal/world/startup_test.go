package world

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestATaintOfANodeIsOfItsStartOrLastsOrIsAState has one taint of each kind. Nodes of its kind always have that of GPUs.
func TestATaintOfANodeIsOfItsStartOrLastsOrIsAState(t *testing.T) {
	lasting := []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
	for _, tc := range []struct {
		key             string
		effect          corev1.TaintEffect
		starting, lasts bool
	}{
		{key: corev1.TaintNodeNotReady, starting: true},
		{key: "node.cloudprovider.kubernetes.io/uninitialized", starting: true},
		{key: "node.cluster.x-k8s.io/uninitialized", starting: true},
		{key: "startup-taint.cluster-autoscaler.kubernetes.io/disk", starting: true},
		{key: "ignore-taint.cluster-autoscaler.kubernetes.io/disk", starting: true},
		{key: corev1.TaintNodeUnreachable},
		{key: corev1.TaintNodeUnschedulable},
		{key: "node.cloudprovider.kubernetes.io/shutdown"},
		{key: "ToBeDeletedByClusterAutoscaler"},
		{key: "DeletionCandidateOfClusterAutoscaler"},
		{key: "status-taint.cluster-autoscaler.kubernetes.io/full"},
		{key: "supercargo.dev/draining"},
		{key: "nvidia.com/gpu", lasts: true},
		{key: "nvidia.com/gpu", effect: corev1.TaintEffectNoExecute, starting: true, lasts: true}, // another taint than the lasting one
		{key: "node.cilium.io/agent-not-ready", starting: true, lasts: true},                      // unknown until a second node has it or not
		{key: "node.cilium.io/agent-not-ready", effect: corev1.TaintEffectPreferNoSchedule},
	} {
		if tc.effect == "" {
			tc.effect = corev1.TaintEffectNoSchedule
		}
		taint := corev1.Taint{Key: tc.key, Effect: tc.effect}
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}
		if got := slices.Contains(Starting(node, lasting), taint); got != tc.starting {
			t.Errorf("%v is of the node's start: %v, want %v", taint, got, tc.starting)
		}
		if got := slices.Contains(Lasting(node), taint); got != tc.lasts {
			t.Errorf("%v lasts: %v, want %v", taint, got, tc.lasts)
		}
	}
}

func TestANodeGoesOnceItIsDeletedOrClusterAutoscalerMarksIt(t *testing.T) {
	for what, tc := range map[string]struct {
		node corev1.Node
		want bool
	}{
		"a node that stays":       {corev1.Node{}, false},
		"a deletion time":         {corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}, true},
		"the taint":               {corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a"}, {Key: TaintToBeDeleted}}}}, true},
		"a candidate, so far":     {corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "DeletionCandidateOfClusterAutoscaler"}}}}, false},
		"a node that is cordoned": {corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, false},
	} {
		if got := Goes(&tc.node); got != tc.want {
			t.Errorf("%s: goes is %v", what, got)
		}
	}
}
