//go:build kubernetes1.38

package narrowing

import (
	"context"

	"k8s.io/klog/v2"
)

// nominated returns how many pods are nominated to the node.
func (n *Narrower) nominated(ctx context.Context, node string) int {
	return len(n.options.Handle.NominatedPodsForNode(klog.FromContext(ctx), node))
}
