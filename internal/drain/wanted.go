package drain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
)

// Wanted returns the name of the first pod that waits and would have room on a closed
// node of the state, were it open, or "". It looks at what the pod demands of a node, and
// not at other pods.
func Wanted(s *cluster.State, node string) string {
	at := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == node })
	if at < 0 {
		return ""
	}
	open := s.Nodes[at]
	if open.Host != nil {
		host := *open.Host
		host.Unschedulable = false
		host.Taints = slices.DeleteFunc(slices.Clone(host.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
		open.Host = &host
	}
	for i := range s.Pending {
		p := &s.Pending[i]
		if open.Suits(p) && p.Size.Fits(open.Free()) && (open.MaxPods == 0 || int64(len(open.Pods)) < open.MaxPods) {
			return p.Name
		}
	}
	return ""
}
