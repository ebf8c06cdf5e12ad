package world

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/test/fixtures"
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
		{key: "karpenter.sh/unregistered", effect: corev1.TaintEffectNoExecute, starting: true},
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

func TestANodeHasStartedOnceNothingSaysThatItHasNot(t *testing.T) {
	tainted := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
	}
	labelled := func(keys ...string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			for _, key := range keys {
				metav1.SetMetaDataLabel(&n.ObjectMeta, key, "true")
			}
		}
	}
	for what, tc := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"a node that runs":                 {func(*corev1.Node) {}, ""},
		"one that is not ready any more":   {tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), ""},
		"its cloud has not initialized it": {tainted("node.cloudprovider.kubernetes.io/uninitialized", corev1.TaintEffectNoSchedule), "it has taint node.cloudprovider.kubernetes.io/uninitialized:NoSchedule"},
		"its kubelet has said nothing":     {func(n *corev1.Node) { n.Status.Allocatable = nil }, "its kubelet has not reported its capacity"},
		"Karpenter has not registered it":  {tainted("karpenter.sh/unregistered", corev1.TaintEffectNoExecute), "it has taint karpenter.sh/unregistered:NoExecute"},
		"Karpenter has not initialized it": {labelled("karpenter.sh/registered"), "Karpenter has not initialized it"},
		"Karpenter has initialized it":     {labelled("karpenter.sh/registered", "karpenter.sh/initialized"), ""},
		"a node with another taint":        {tainted("nvidia.com/gpu", corev1.TaintEffectNoSchedule), ""},
	} {
		node := fixtures.Node("n", 2000, 8<<30)
		tc.change(node)
		if got := Unstarted(node); got != tc.want {
			t.Errorf("%s: %q, want %q", what, got, tc.want)
		}
	}
}
