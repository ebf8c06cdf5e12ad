package drain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Cordon cordons a node and marks it in one write. The API server rejects the write with a conflict if the node has
// changed since it was read.
func Cordon(ctx context.Context, c client.Client, node *corev1.Node, m Mark) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:%q}},"spec":{"unschedulable":true}}`,
		node.ResourceVersion, v1alpha1.AnnotationDraining, m)
	if err := c.Patch(ctx, named(node), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("cordon node %s: %w", node.Name, err)
	}
	return nil
}

// Uncordon undoes [Cordon]. A node that no longer exists is not an error.
func Uncordon(ctx context.Context, c client.Client, node *corev1.Node) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}},"spec":{"unschedulable":null}}`, v1alpha1.AnnotationDraining)
	if err := c.Patch(ctx, named(node), client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("uncordon node %s: %w", node.Name, err)
	}
	return nil
}

func named(node *corev1.Node) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
}

// Pods returns the pods that would be lost with the node: all that have not ended and are not DaemonSet or static pods.
// The reader should bypass any cache.
func Pods(ctx context.Context, live client.Reader, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := live.List(ctx, &list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("list pods on node %s: %w", node, err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return class.EveryNode(&p) || class.Ended(&p)
	}), nil
}
