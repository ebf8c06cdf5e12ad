// Package moves decides which nodes are emptied and where their pods go.
//
// It is the one planner of moves: the descheduler, NodeFleets and the simulator call
// [Planner.Plan], which empties nodes whose pods fit on others, and [Exchange], which also
// buys machines for them. It acts on nothing and needs no clock; what it remembers from one
// call to the next, since when each node has been under-used, is in the [Planner].
package moves

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Measure is how the utilisation of a node is computed from the requests.
type Measure int

const (
	// Mean is the mean of the requested shares of CPU and memory, as in HTAS.
	Mean Measure = iota
	// Dominant is the greater of both shares, as in cluster-autoscaler.
	Dominant
)

// Config says which nodes are emptied, when, and how.
type Config struct {
	// Threshold is the utilisation below which a node is under-used, from 0 to 1, unless
	// the node says otherwise.
	Threshold float64
	// Measure is how utilisation is computed.
	Measure Measure
	// After is for how long without a break a node must have been under-used. Time in
	// which pods are on their way to it does not count.
	After time.Duration
	// QueueEmpty is for how long no batch pod may have been pending. Above zero, it
	// holds back only nodes that take batch pods; those of services alone wait until no
	// service is pending.
	QueueEmpty time.Duration
	// EmptyWhileQueued proposes empty nodes whatever QueueEmpty says: whoever asks knows
	// whether pods that are pending are going to need them.
	EmptyWhileQueued bool
	// AnyPending holds everything back while any pod is pending.
	AnyPending bool
	// Method is how pods leave that have no [cluster.Ways] of their own. Ways, if not 0, is
	// the choice that they have in its place.
	Method cluster.Method
	Ways   cluster.Ways
	// MoveServices allows services to be moved as well as batch pods.
	MoveServices bool
	// Cycle is the width of the time bins by which a batch pod's target is chosen; 0
	// chooses the tightest fit.
	Cycle time.Duration
	// Replace allows a cheaper machine to be bought for the pods of a node that
	// fit nowhere else, as long as there may be more machines. Worthwhile does not
	// look at replacements.
	Replace bool
	// Limit is how many nodes with pods may be emptied in one round; 0 means any
	// number. Empty nodes are not limited.
	Limit int
	// Budget limits what is under way at once, counting what was begun before.
	Budget Budget
	// PodResidence is for how long a pod must have been on its node before it is moved
	// off it. A node with a pod that has to move and must not yet stays.
	PodResidence time.Duration
	// Worthwhile empties a node only where that is expected to save more than it
	// costs, and chooses how each pod leaves: see [Planner.Plan].
	Worthwhile bool
	// Margin is which part of what a node would still cost must be left of the saving when
	// all costs are paid, so that small errors of what is expected do not move pods to
	// and fro; 0 is none, and [DefaultMargin] one to begin with.
	Margin float64
	// Risk is how probable it is that a migration fails so that the pod starts from the
	// beginning; 0 is [DefaultRisk], and less than 0 none.
	Risk float64
	// Patience is for how long a node may be cordoned while its last pods end; 0 means any
	// time. What the account does not know is what else would have come to it.
	Patience time.Duration
	// Horizon is how long the cluster is expected to stay as it is, for the account of
	// services, which run until then: 0 leaves them, and the nodes that they keep, out of it.
	Horizon time.Duration
	// Explain has [cluster.Plan.Kept] filled in, for a person. It changes nothing else.
	Explain bool
}

// Planner proposes moves under one configuration. It is not safe for concurrent
// use.
type Planner struct {
	config Config
	// since says since when each under-used node has been so.
	since map[string]time.Time
}

// NewPlanner returns a Planner that has seen nothing yet.
func NewPlanner(c Config) *Planner {
	return &Planner{config: c, since: map[string]time.Time{}}
}

// Plan says which nodes to empty and which empty ones to release (HTAS,
// section 5.3 and algorithm 5).
//
// A node qualifies when it may go at all, has been under-used for long enough and
// the queue allows it. Nodes are tried from the worst utilised on, ties by name. Every pod of a
// node needs a target among the other nodes, all or nothing: the pods choose in the
// order in which they would be scheduled, a target is what the packing algorithm
// picks, and what one pod takes the next cannot have. A node that is being
// emptied is no target, nor is an empty one unless it is kept; a node that has become a
// target is not emptied.
//
// A target is also one where the scheduler would let the pod go: what it demands of a
// node, and what it and the pods there demand of one another (package constraint), while
// the nodes that are being emptied are still there. A node without a Host has no labels
// and taints, and admits every pod.
//
// Without Worthwhile all pods leave at once, by the configured method wherever their
// [cluster.Ways] have it.
//
// With Worthwhile the bill decides, and each pod leaves in the way that makes the bill
// smallest for the node as a whole. The node is paid, by started billing periods, until the
// last pod has left it: those that wait have ended, those that migrate have arrived, and
// evicted ones are gone at once. A pod that moves costs the periods for which its target is
// then needed longer, and at least its share of the target for as long as the move makes it
// end later: the time of a migration and, at the Risk that this fails, all the work done,
// which an eviction repeats for sure. A drain saves the periods that the node would have
// been paid for until its last pod has ended by itself. It is done if it saves more than
// it costs, by Margin of what the node would still cost. Ties go to fewer moves, then to
// migration. Without a Horizon, services cost and save nothing.
//
// What is promised is not there for others: pods on their way are among those of their
// target, and pods that wait and have been promised room (see [cluster.Pod]) have it.
//
// A node that waits for its last pods takes pods again if the plan that cordoned it no longer
// holds: they have not ended when they should have, or a pod is pending that it has room
// for.
//
// Cost: O(n·log n) for n nodes, plus O(n + p) for each of p pods on a node that qualifies.
func (p *Planner) Plan(now time.Time, s *cluster.State) cluster.Plan {
	plan := cluster.Plan{Uncordon: p.uncordon(s)}
	s = Uncordoned(s, plan.Uncordon)
	p.observe(now, s)
	candidates := p.candidates(now, s)
	if len(candidates) == 0 && !p.config.Explain {
		plan.Wake = p.wake(now, s)
		return plan
	}
	r := newRound(p.config, s)
	for _, n := range candidates {
		room := r.byName[n.Name]
		switch {
		case room.target:
			r.note(n, "it takes pods of other nodes")
		case room.promised != nil:
			r.note(n, "room there has been promised to pod %s", room.promised.Name)
		case len(n.Pods) == 0:
			plan.Release = append(plan.Release, cluster.Release{Node: n.Name, Reason: "it is empty"})
			room.leaving = true
		case p.config.Limit > 0 && len(plan.Drains) >= p.config.Limit:
			r.note(n, "the budget of %d machines is used up", p.config.Limit)
		case r.budget.spent():
			r.note(n, "the budget of %d machines at once is used up", p.config.Budget.Machines)
		default:
			if d, ok := r.drain(n); ok {
				plan.Drains = append(plan.Drains, d)
			}
		}
	}
	plan.Kept = p.kept(now, r)
	plan.Wake = p.wake(now, s)
	return plan
}

// uncordon returns the nodes that wait for their last pods in vain, by name.
func (p *Planner) uncordon(s *cluster.State) []cluster.Stay {
	var all []cluster.Stay
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Phase != cluster.Leaving || !n.Waits || len(n.Pods) == 0 {
			continue
		}
		if n.Until <= 0 {
			all = append(all, cluster.Stay{Node: n.Name, Reason: fmt.Sprintf("%d of its pods continue, which should have ended %v ago", len(n.Pods), -n.Until.Round(time.Second))})
		} else if at := slices.IndexFunc(s.Pending, func(pod cluster.Pod) bool { return wanted(&pod, n) }); at >= 0 {
			all = append(all, cluster.Stay{Node: n.Name, Reason: fmt.Sprintf("it has room for pod %s, which waits", s.Pending[at].Name)})
		}
	}
	return all
}

// Uncordoned is the cluster once the nodes take pods again. The rest is shared with the one
// given.
func Uncordoned(s *cluster.State, nodes []cluster.Stay) *cluster.State {
	if len(nodes) == 0 {
		return s
	}
	after := *s
	after.Nodes = slices.Clone(s.Nodes)
	for i := range after.Nodes {
		n := &after.Nodes[i]
		if slices.ContainsFunc(nodes, func(other cluster.Stay) bool { return other.Node == n.Name }) {
			n.Phase, n.Waits, n.Until = cluster.Ready, false, 0
		}
	}
	return &after
}

// wanted reports whether a pending pod could be on the node, and has no other place yet.
func wanted(pod *cluster.Pod, n *cluster.Node) bool {
	return !pod.Nominated && pod.Promised == "" && n.HasRoom(pod)
}

// threshold is the utilisation below which a node is under-used.
func (c Config) threshold(n *cluster.Node) float64 {
	if n.UnderUsed != nil {
		return *n.UnderUsed
	}
	return c.Threshold
}

// after is for how long a node must have been under-used.
func (c Config) after(n *cluster.Node) time.Duration {
	if n.UnneededFor != nil {
		return *n.UnneededFor
	}
	return c.After
}

// observe notes which nodes are under-used.
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

// wake returns after what time the next node may qualify, 0 if none can without
// something else happening.
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

// candidates returns the nodes that qualify, the worst utilised first.
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

// queueAllows reports whether what is pending lets a node go.
func (p *Planner) queueAllows(n *cluster.Node, s *cluster.State) bool {
	if p.config.QueueEmpty == 0 || p.config.EmptyWhileQueued && len(n.Pods) == 0 {
		return true
	}
	if n.Class == class.Service {
		return !slices.ContainsFunc(s.Pending, func(pod cluster.Pod) bool { return pod.Class == class.Service })
	}
	return s.QueueEmpty >= p.config.QueueEmpty
}

// Utilization is the utilisation of a node by the configured measure. A resource
// of which the node has nothing counts 0.
func (c Config) Utilization(n *cluster.Node) float64 {
	used := n.Used()
	cpu, memory := share(used.MilliCPU, n.Capacity.MilliCPU), share(used.MemoryBytes, n.Capacity.MemoryBytes)
	if c.Measure == Dominant {
		return max(cpu, memory)
	}
	return (cpu + memory) / 2
}

func share(used, capacity int64) float64 {
	if capacity <= 0 {
		return 0
	}
	return float64(used) / float64(capacity)
}
