package karpenter

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
)

// mostCandidates is the maximum number of nodes that are emptied together.
const mostCandidates = 100

// method is a way to remove nodes. Methods are tried in this order, until one finds a command.
type method int

const (
	emptiness  method = iota // removes empty nodes
	multiNode                // removes several nodes, and replaces them by at most one
	singleNode               // removes one node, and replaces it by at most one
	methods                  // the number of methods
)

// command is a decision to remove nodes.
type command struct {
	method method
	// nodes are the nodes to remove, in order of preference.
	nodes []*cluster.Node
	// flavors are those that can replace the nodes, cheapest first. It is empty if the pods fit on other nodes.
	flavors []*cluster.Flavor
}

// names returns the names of the nodes.
func (c *command) names() []string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.Name)
	}
	return all
}

// view is a cluster as one round of consolidation sees it.
type view struct {
	rooms   []room
	flavors []*cluster.Flavor
	// waiting are the pods that need a node in any case: pending pods, and pods on nodes that are being removed.
	waiting []cluster.Pod
	// empty and used are the candidates: the nodes that may be removed, in order of preference. Those in used have pods.
	empty, used []*cluster.Node
	// budget is the number of nodes that may be removed now, and most the number that may be launched.
	budget, most int
}

// find returns the command of a method, or nil if it finds none.
func (v *view) find(m method) *command {
	switch {
	case v.budget == 0:
	case m == emptiness && len(v.empty) > 0:
		return &command{method: m, nodes: v.empty[:min(v.budget, len(v.empty))]}
	case m == multiNode:
		return v.several()
	case m == singleNode:
		for i := range v.used {
			if c := v.consolidate(singleNode, v.used[i:i+1]); c != nil {
				return c
			}
		}
	}
	return nil
}

// several returns a long prefix of the used candidates that can be removed together, or nil. It uses binary search: if
// the first n nodes cannot be removed, it does not try more, although a longer prefix might work.
//
// Cost: O(log n) calls of [view.consolidate], for n candidates.
func (v *view) several() *command {
	nodes := v.used[:min(len(v.used), v.budget, mostCandidates)]
	var found *command
	for low, high := 2, len(nodes); low <= high; {
		n := (low + high) / 2
		c := v.consolidate(multiNode, nodes[:n])
		if c != nil && len(c.flavors) > 0 {
			c = withoutSame(c)
		}
		if c == nil {
			high = n - 1
			continue
		}
		found, low = c, n+1
	}
	return found
}

// withoutSame removes from the replacements of several nodes the flavors of these nodes and all that cost as much or
// more, because keeping such a node would serve as well. It returns nil if no flavor is left.
func withoutSame(c *command) *command {
	limit := int64(-1)
	for _, f := range c.flavors {
		for _, n := range c.nodes {
			if n.Flavor == f.Name && (limit < 0 || n.MicroDollarsPerHour < limit) {
				limit = n.MicroDollarsPerHour
			}
		}
	}
	if limit >= 0 {
		c.flavors = cheaper(c.flavors, limit)
	}
	if len(c.flavors) == 0 {
		return nil
	}
	return c
}

// consolidate returns the command that removes the nodes, or nil if their pods do not fit on other Ready nodes and at
// most one new machine that costs less than the nodes together.
//
// Cost: that of [Solve] for their pods and the waiting pods.
func (v *view) consolidate(m method, nodes []*cluster.Node) *command {
	of := map[string]bool{}
	pods := slices.Clone(v.waiting)
	price := int64(0)
	for _, n := range nodes {
		of[n.Name] = true
		price += n.MicroDollarsPerHour
		pods = append(pods, n.Pods...)
	}
	rooms := make([]room, 0, len(v.rooms))
	ordered := map[string]bool{}
	for _, r := range v.rooms {
		if !of[r.node.Name] {
			rooms = append(rooms, r)
			ordered[r.node.Name] = r.node.Phase == cluster.Ordered
		}
	}
	s := solve(pods, rooms, v.flavors, v.most, 1)
	if len(s.Claims) > 1 || !served(s, nodes, ordered) {
		return nil
	}
	c := &command{method: m, nodes: nodes}
	if len(s.Claims) == 0 {
		return c
	}
	c.flavors = cheaper(s.Claims[0].Flavors, price)
	if len(c.flavors) == 0 {
		return nil
	}
	return c
}

// served reports whether the solution places all pods of the nodes, and none on an existing machine that is not ready.
func served(s Solution, nodes []*cluster.Node, ordered map[string]bool) bool {
	for _, n := range nodes {
		for i := range n.Pods {
			name := n.Pods[i].Name
			node, placed := s.Nodes[name]
			if ordered[node] || !placed && slices.Contains(s.Unplaced, name) {
				return false
			}
		}
	}
	return true
}

// cheaper returns the flavors below a price. The flavors must be sorted by price.
func cheaper(flavors []*cluster.Flavor, microDollarsPerHour int64) []*cluster.Flavor {
	at, _ := slices.BinarySearchFunc(flavors, microDollarsPerHour, func(f *cluster.Flavor, price int64) int {
		return cmp.Compare(f.MicroDollarsPerHour, price)
	})
	return flavors[:at:at]
}

// preferred compares candidates: the highest price per disruption comes first; ties go to the first name. A node counts
// as one disruption, and so does each of its pods.
func preferred(a, b *cluster.Node) int {
	disruption := func(n *cluster.Node) int64 { return int64(1 + len(n.Pods)) }
	return cmp.Or(
		cmp.Compare(b.MicroDollarsPerHour*disruption(a), a.MicroDollarsPerHour*disruption(b)),
		cmp.Compare(a.Name, b.Name),
	)
}

// holds returns the command if it is still valid, else nil: the nodes are still candidates of the method, the budget
// permits their removal, and a new plan gives the same result. A command of emptiness keeps the nodes that are still
// empty and within the budget.
func (v *view) holds(c *command) *command {
	candidates := v.used
	if c.method == emptiness {
		candidates = v.empty
	}
	var nodes []*cluster.Node
	for _, old := range c.nodes {
		at := slices.IndexFunc(candidates, func(n *cluster.Node) bool { return n.Name == old.Name })
		if at >= 0 && len(nodes) < v.budget {
			nodes = append(nodes, candidates[at])
		}
	}
	if c.method == emptiness {
		if len(nodes) == 0 {
			return nil
		}
		return &command{method: emptiness, nodes: nodes}
	}
	if len(nodes) < len(c.nodes) {
		return nil
	}
	again := v.consolidate(c.method, nodes)
	if again == nil || (len(again.flavors) == 0) != (len(c.flavors) == 0) || !subset(c.flavors, again.flavors) {
		return nil
	}
	again.flavors = c.flavors
	return again
}

// subset reports whether all flavors are among others, by name.
func subset(flavors, others []*cluster.Flavor) bool {
	return !slices.ContainsFunc(flavors, func(f *cluster.Flavor) bool {
		return !slices.ContainsFunc(others, func(o *cluster.Flavor) bool { return o.Name == f.Name })
	})
}
