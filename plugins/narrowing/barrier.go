package narrowing

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// barriers are the distinct sets of taints on nodes, with the number of nodes for each. Tainted nodes are in no index,
// so a pod that tolerates one of the sets must be tried on all nodes. Clusters have few sets, however many tainted
// nodes.
type barriers map[string]*barrier

type barrier struct {
	taints []corev1.Taint
	nodes  int
}

// barrierOf returns the taints that repel ordinary pods from a node, and their key; both are empty if there are none. A
// cordoned node counts as tainted, because pods tolerate it by a taint.
func barrierOf(node *corev1.Node) (key string, taints []corev1.Taint) {
	if !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 {
		return "", nil
	}
	var text strings.Builder
	add := func(t corev1.Taint) {
		taints = append(taints, t)
		fmt.Fprintf(&text, "%s=%s:%s,", t.Key, t.Value, t.Effect)
	}
	if node.Spec.Unschedulable {
		add(corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			add(t)
		}
	}
	return text.String(), taints
}

// add counts a node with the taints of the given key, if any.
func (b barriers) add(key string, taints []corev1.Taint) {
	if key == "" {
		return
	}
	if b[key] == nil {
		b[key] = &barrier{taints: taints}
	}
	b[key].nodes++
}

// remove reverts one add.
func (b barriers) remove(key string) {
	if known := b[key]; known != nil {
		if known.nodes--; known.nodes == 0 {
			delete(b, key)
		}
	}
}

// tolerated reports whether the pod tolerates the taints of some tainted node. Cost: O(sets of taints · tolerations).
func (b barriers) tolerated(pod *corev1.Pod) bool {
	if len(pod.Spec.Tolerations) == 0 {
		return false
	}
	for _, known := range b {
		if _, repelled := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), known.taints, pod.Spec.Tolerations, nil, true); !repelled {
			return true
		}
	}
	return false
}
