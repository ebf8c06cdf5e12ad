package audit

import (
	"cmp"
	"maps"
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
	moves   int
	emptied []string
	state   cluster.State
	kept    map[string]string // why under-used nodes stay, by name
}

// Consolidation returns the assumed configuration of a NodeFleet, except for its waiting times.
func Consolidation() *v1alpha1.FleetConsolidation {
	none := v1alpha1.FleetConsolidation{EvictServices: v1alpha1.EvictServicesOptOut}
	none.PodResidence = new(none.After) // pods move at once
	return &none
}

// move repeatedly empties the nodes that a NodeFleet without purchases would empty, until there are
// none. ways replaces the ways in which the pods that it names may leave.
//
// Pods that could leave only by completing stay, because all figures are for the same pods.
func (c *scene) move(ways map[string]cluster.Ways) moved {
	s := c.state(ways)
	m := moved{kept: map[string]string{}}
	total := len(s.Nodes)
	config := fleetdecide.ConfigOf(&v1alpha1.NodeFleetSpec{Consolidation: *Consolidation()})
	config.UnderUsed, config.Stop = true, c.in.Stop
	for range mostRounds {
		// A planner that persisted across rounds would wait until its observations are stable.
		d := fleetdecide.Fleet(&s, fleetdecide.FleetOptions{
			Config: config, Exhausted: buysNothing, Budget: total, Spare: spare(&s),
		}, moves.NewPlanner(config.Moves()), time.Unix(0, 0))
		clear(m.kept)
		for _, k := range d.Kept {
			m.kept[k.Node] = k.Reason
		}
		if !m.apply(&s, d) || c.stopped() {
			break
		}
	}
	slices.Sort(m.emptied)
	m.state = s
	left := make(map[string]bool, len(s.Nodes))
	for i := range s.Nodes {
		left[s.Nodes[i].Name] = true
	}
	m.bill = billOf(slices.DeleteFunc(slices.Clone(c.nodes), func(n Node) bool { return !left[n.Name] }))
	return m
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

// apply applies a decision, and reports whether it changes anything.
func (m *moved) apply(s *cluster.State, d fleetdecide.FleetDecision) bool {
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
			to.Pods = append(to.Pods, pods[move.Pod])
			m.moves++
		}
		gone[drain.Node] = true
	}
	m.emptied = slices.AppendSeq(m.emptied, maps.Keys(gone))
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n cluster.Node) bool { return gone[n.Name] })
	for i := range s.Nodes {
		slices.SortFunc(s.Nodes[i].Pods, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	}
	return true
}
