package drain

import (
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// Wanted returns the name of the first pending pod that would fit on the given cordoned node if it were uncordoned, or
// "". It checks the pod's constraints on the node, but not those on other pods.
func Wanted(s *cluster.State, node string) string {
	at := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == node })
	if at < 0 {
		return ""
	}
	open := s.Nodes[at]
	open.Host = constraint.Uncordoned(open.Host)
	for i := range s.Pending {
		p := &s.Pending[i]
		if open.HasRoom(p) {
			return p.Name
		}
	}
	return ""
}
