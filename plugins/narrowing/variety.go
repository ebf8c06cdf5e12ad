package narrowing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// variety counts the node properties that soft preferences may depend on, so that equally good nodes need not be
// compared one by one if they cannot differ. The zero value is for no nodes.
type variety struct {
	// images is the number of nodes that have each image, by name.
	images map[string]int
	// tainted is the number of nodes with a PreferNoSchedule taint.
	tainted int
}

// change replaces a node by its new version; nil means none. It costs nothing while a node's object stays the same,
// which it does when pods are added or removed.
func (v *variety) change(from, to *corev1.Node) {
	if from == to {
		return
	}
	v.count(from, -1)
	v.count(to, 1)
}

func (v *variety) count(node *corev1.Node, by int) {
	if node == nil {
		return
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule }) {
		v.tainted += by
	}
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			if v.images == nil {
				v.images = map[string]int{}
			}
			if v.images[name] += by; v.images[name] == 0 {
				delete(v.images, name)
			}
		}
	}
}

// some reports whether an image of the pod is on some of the nodes and not on others.
func (v *variety) some(pod *corev1.Pod, nodes int) bool {
	partial := func(c corev1.Container) bool {
		with := v.images[normalizedImage(c.Image)]
		return with > 0 && with < nodes
	}
	return slices.ContainsFunc(pod.Spec.InitContainers, partial) || slices.ContainsFunc(pod.Spec.Containers, partial)
}
