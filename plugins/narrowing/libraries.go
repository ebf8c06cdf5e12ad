//go:build !kubernetes1.38

package narrowing

import "context"

// nominated returns how many pods are nominated to the node.
func (n *Narrower) nominated(_ context.Context, node string) int {
	return len(n.options.Handle.NominatedPodsForNode(node))
}
