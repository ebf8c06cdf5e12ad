package moves

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// threshold returns the utilisation below which a node is under-used.
func (c DrainConfig) threshold(n *cluster.Node) float64 {
	if n.UnderUsed != nil {
		return *n.UnderUsed
	}
	return c.Threshold
}

// after returns how long a node must have been under-used.
func (c DrainConfig) after(n *cluster.Node) time.Duration {
	if n.UnneededFor != nil {
		return *n.UnneededFor
	}
	return c.After
}

// observe records which nodes are under-used.
func (p *Planner) observe(now time.Time, s *cluster.State) {
	seen := make(map[string]time.Time, len(p.since))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		since, ok := p.since[n.Name]
		if n.Phase == cluster.Leaving && n.Waits && ok { // it may be uncordoned
			seen[n.Name] = since
			continue
		}
		if n.Phase != cluster.Ready || n.Kept || n.Incoming > 0 || p.config.Utilization(n) >= p.config.threshold(n) && len(n.Pods) > 0 {
			continue
		}
		if !ok {
			since = now
		}
		seen[n.Name] = since
	}
	p.since = seen
}

// wake returns the time until the next node may qualify, or 0 if none can unless something else happens.
func (p *Planner) wake(now time.Time, s *cluster.State) time.Duration {
	var soonest time.Duration
	for i := range s.Nodes {
		since, ok := p.since[s.Nodes[i].Name]
		if !ok {
			continue
		}
		wait := since.Add(p.config.after(&s.Nodes[i])).Sub(now)
		if n := &s.Nodes[i]; n.Class != class.Service && (len(n.Pods) > 0 || !p.config.EmptyWhileQueued) {
			wait = max(wait, p.config.QueueEmpty-s.QueueEmpty)
		}
		if wait > 0 && (soonest == 0 || wait < soonest) {
			soonest = wait
		}
	}
	return soonest
}

// candidates returns the nodes that qualify, least utilised first.
func (p *Planner) candidates(now time.Time, s *cluster.State) []*cluster.Node {
	if p.config.AnyPending && len(s.Pending) > 0 {
		return nil
	}
	var found []*cluster.Node
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if since, ok := p.since[n.Name]; ok && n.Phase == cluster.Ready && now.Sub(since) >= p.config.after(n) && p.queueAllows(n, s) {
			found = append(found, n)
		}
	}
	slices.SortStableFunc(found, func(a, b *cluster.Node) int {
		return cmp.Compare(p.config.Utilization(a), p.config.Utilization(b))
	})
	return found
}

// queueAllows reports whether the pending pods allow a node to be drained.
func (p *Planner) queueAllows(n *cluster.Node, s *cluster.State) bool {
	if p.config.QueueEmpty == 0 || p.config.EmptyWhileQueued && len(n.Pods) == 0 {
		return true
	}
	if n.Class == class.Service {
		return !slices.ContainsFunc(s.Pending, func(pod cluster.Pod) bool { return pod.Class == class.Service })
	}
	return s.QueueEmpty >= p.config.QueueEmpty
}

// Utilization returns the utilisation of a node by the configured measure. A resource of which the node has nothing
// counts as 0. Of a node with GPUs it is that of the GPUs, for each measure, as for cluster-autoscaler: other pods could
// run elsewhere.
func (c DrainConfig) Utilization(n *cluster.Node) float64 {
	used := n.Used()
	if n.GPUs.Any {
		return extendedShare(used.Extended, n.GPUs.Amounts)
	}
	cpu, memory := share(used.MilliCPU, n.Capacity.MilliCPU), share(used.MemoryBytes, n.Capacity.MemoryBytes)
	if c.Measure == Dominant {
		return max(cpu, memory)
	}
	return (cpu + memory) / 2
}

// extendedShare returns the greatest share of an extended resource that is used, of those of which there is some.
func extendedShare(used, capacity packing.Extended) (most float64) {
	for slot, amount := range used.BySlot() {
		most = max(most, share(int64(amount), int64(capacity.At(slot))))
	}
	return most
}

func share(used, capacity int64) float64 {
	if capacity <= 0 {
		return 0
	}
	return float64(used) / float64(capacity)
}
