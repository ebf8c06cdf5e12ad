package audit

import (
	"cmp"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/moves"
)

// mostRounds is the maximum number of rounds: nearly all nodes are emptied in the first one.
const mostRounds = 20

// settled is the assumed age of the cluster's state: an audit sees one moment, so it assumes that
// the waiting times of a NodeFleet before it empties a node have passed.
const settled = 24 * time.Hour

// buysNothing is the reason why moves alone buy no machines.
const buysNothing = "moves alone buy nothing"

// moved is the cluster after moves alone.
type moved struct {
	bill    Bill
	moves   int // pods that are on another node than before
	emptied []string
	state   cluster.State
}

// Consolidation returns the assumed configuration of a NodeFleet, except for its waiting times.
func Consolidation() *v1alpha1.FleetConsolidation {
	none := v1alpha1.FleetConsolidation{EvictServices: v1alpha1.EvictServicesOptOut}
	none.PodResidence = new(none.After) // pods move at once
	return &none
}

// move returns the cheapest state found that moves alone reach: what a NodeFleet without purchases reaches, or a search
// for nodes to empty in several orders, from the present state and from that of the NodeFleet. ways replaces the ways in
// which the pods that it names may leave.
//
// Pods that could leave only by completing stay, because all figures are for the same pods.
func (c *scene) move(ways map[string]cluster.Ways) moved {
	now := c.state(ways)
	states := []cluster.State{c.byFleet(now)}
	left := mostEffort
	for _, order := range orders {
		states = append(states, c.empty(&now, order, &left))
	}
	states = append(states, c.empty(&states[0], orders[0], &left))
	best := c.cheapestState(states)
	m := moved{state: best, moves: c.movedPods(&best), emptied: c.emptied(&best)}
	m.bill = billOf(slices.DeleteFunc(slices.Clone(c.nodes), func(n Node) bool {
		_, gone := slices.BinarySearch(m.emptied, n.Name)
		return gone
	}))
	return m
}

// byFleet repeatedly empties the nodes that a NodeFleet without purchases would empty, until there are none.
func (c *scene) byFleet(s cluster.State) cluster.State {
	s.Nodes = slices.Clone(s.Nodes)
	total := len(s.Nodes)
	config := fleetdecide.ConfigOf(&v1alpha1.NodeFleetSpec{Consolidation: *Consolidation()})
	config.UnderUsed, config.Stop = true, c.in.Stop
	for range mostRounds {
		// A planner that persisted across rounds would wait until its observations are stable.
		d := fleetdecide.Fleet(&s, fleetdecide.FleetOptions{
			Config: config, Exhausted: buysNothing, Budget: total, Spare: spare(&s),
		}, moves.NewPlanner(config.Moves()), time.Unix(0, 0))
		if !apply(&s, d) || c.stopped() {
			break
		}
	}
	return s
}

// state returns the cluster as [fleetdecide.Fleet] sees it. Nodes without a price neither receive nor
// lose pods.
func (c *scene) state(ways map[string]cluster.Ways) cluster.State {
	s := cluster.State{QueueEmpty: settled, MaxNodes: math.MaxInt32, Migration: cluster.DefaultMigration}
	for _, group := range [][]Node{c.nodes, c.others} {
		for i := range group {
			n := group[i].Node
			n.Pods = slices.Clone(n.Pods)
			for j := range n.Pods {
				leave(&n.Pods[j], ways)
			}
			n.Age = max(n.Age, settled)
			if group[i].Unpriced != "" {
				n.Phase, n.Kept = cluster.Leaving, true
			}
			s.Nodes = append(s.Nodes, n)
		}
	}
	slices.SortFunc(s.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// leave sets the ways in which a pod may leave its node.
func leave(p *cluster.Pod, ways map[string]cluster.Ways) {
	if by, lifted := ways[p.Name]; lifted {
		p.Ways, p.Held, p.Fixed = by, "", false
	}
	if p.Ways = p.Ways.Without(cluster.Wait); p.Ways == 0 {
		p.Fixed, p.Held = true, cmp.Or(p.Held, "it may only leave by completing")
	}
	p.Resided = max(p.Resided, settled)
}

// spare allows all machines of all flavors to be released.
func spare(s *cluster.State) map[string]int {
	all := map[string]int{}
	for i := range s.Nodes {
		all[s.Nodes[i].Flavor]++
	}
	return all
}

// apply applies a decision, and reports whether it changes anything. It does not change the pods of other copies.
func apply(s *cluster.State, d fleetdecide.FleetDecision) bool {
	if len(d.Release) == 0 && len(d.Drains) == 0 {
		return false
	}
	at := make(map[string]int, len(s.Nodes))
	for i := range s.Nodes {
		at[s.Nodes[i].Name] = i
	}
	gone := map[string]bool{}
	for _, r := range d.Release {
		gone[r.Node] = true
	}
	for _, drain := range d.Drains {
		from := &s.Nodes[at[drain.Node]]
		pods := make(map[string]cluster.Pod, len(from.Pods))
		for _, p := range from.Pods {
			pods[p.Name] = p.Elsewhere()
		}
		for _, move := range drain.Moves {
			to := &s.Nodes[at[move.Target]]
			to.Pods = append(slices.Clip(to.Pods), pods[move.Pod])
		}
		gone[drain.Node] = true
	}
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n cluster.Node) bool { return gone[n.Name] })
	for i := range s.Nodes {
		s.Nodes[i].Pods = slices.SortedFunc(slices.Values(s.Nodes[i].Pods), func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	}
	return true
}
