package cluster

import "slices"

// WithoutExpendable returns the nodes without their expendable pods, for decisions about which machines to keep. It changes
// none of its arguments, and copies only if a node has such pods.
//
// Cost: O(pods).
func WithoutExpendable(nodes []Node) []Node {
	expendable := func(p Pod) bool { return p.Expendable }
	copied := false
	for i := range nodes {
		if !slices.ContainsFunc(nodes[i].Pods, expendable) {
			continue
		}
		if !copied {
			nodes, copied = slices.Clone(nodes), true
		}
		nodes[i].Pods = slices.DeleteFunc(slices.Clone(nodes[i].Pods), expendable)
	}
	return nodes
}
