package drain

import (
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// Wanted returns the name of the first pod that waits and would have room on a cordoned
// node of the state, were it uncordoned, or "". It looks at what the pod demands of a node, and
// not at other pods.
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
