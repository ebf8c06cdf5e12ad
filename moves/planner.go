// Package moves decides which nodes are drained and where their pods go.
//
// It is the only planner of moves. The descheduler, NodeFleets and the simulator call [Planner.Plan], which drains
// nodes whose pods fit on others, and [Exchange], which also buys machines for them. The package carries nothing out
// and needs no clock. The only state between calls, since when each node has been under-used, is in the [Planner].
//
// cost.go has what a move costs and saves. A round of the planner: planner.go (the plan), candidates.go (which nodes
// may be drained), drain.go (how one node is drained), explain.go (why the others stay). Exchanges: exchange.go,
// exchange_sets.go (which machines), exchange_offer.go (for which others). Moves of single pods to machines that suit
// them better: transfer.go. All use round.go (the room that is left), trial.go (a placement that can be undone),
// targets.go (the best room for a pod), ways.go (how a pod may leave), rules.go (where a pod may run) and budget.go.
package moves

import (
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Measure is how the utilisation of a node is calculated from the requests.
type Measure int

const (
	// Mean is the mean of the requested shares of CPU and memory, as in HTAS.
	Mean Measure = iota
	// Dominant is the greater of both shares, as in cluster-autoscaler.
	Dominant
)

// DrainConfig configures which nodes are drained, when, and how.
type DrainConfig struct {
	// Threshold is the utilisation, from 0 to 1, below which a node is under-used. The node may override it.
	Threshold float64
	// Measure is how utilisation is calculated.
	Measure Measure
	// After is how long a node must have been under-used without interruption. Time during which pods are on their way
	// to it does not count.
	After time.Duration
	// QueueEmpty is how long no batch pod may have been pending. If it is positive, it only holds back nodes that
	// accept batch pods; nodes of class service are held back while a service is pending.
	QueueEmpty time.Duration
	// EmptyWhileQueued releases empty nodes regardless of QueueEmpty, for callers that know whether pending pods need
	// them.
	EmptyWhileQueued bool
	// AnyPending holds all nodes back while any pod is pending.
	AnyPending bool
	// Method is how pods without [cluster.Ways] of their own leave. If Ways is not 0, those pods leave by one of Ways
	// instead.
	Method cluster.Method
	Ways   cluster.Ways
	// MoveServices allows services to be moved as well as batch pods.
	MoveServices bool
	// Cycle is the width of the time bins for the target of a batch pod; 0 means best fit.
	Cycle time.Duration
	// Replace allows buying a cheaper machine for the pods of a node that fit nowhere else, within MaxNodes. Worthwhile
	// does not weigh the costs of a replacement.
	Replace bool
	// Limit is how many nodes with pods may be drained in one round; 0 means unlimited. Empty nodes are not limited.
	Limit int
	// Budget limits what is in progress at once, including earlier rounds.
	Budget Budget
	// PodResidence is how long a pod must have been on its node before it is moved. A node with a pod that must move
	// and has not been there long enough stays.
	PodResidence time.Duration
	// Worthwhile drains a node only if the expected savings exceed the costs, and chooses how each pod leaves: see
	// [Planner.Plan].
	Worthwhile bool
	// Margin is the fraction of a node's remaining cost that the saving, minus all costs, must exceed, so that small
	// estimation errors do not move pods back and forth. 0 means none; [DefaultMargin] is a reasonable value.
	Margin float64
	// Risk is the probability that a migration fails, so that the pod starts from the beginning. 0 means [DefaultRisk],
	// a negative value means none.
	Risk float64
	// Patience is how long a node may be cordoned while its last pods end; 0 means unlimited. The account does not
	// include pods that would have come to the node in that time.
	Patience time.Duration
	// Horizon is how long the cluster is expected to stay as it is. Services are assumed to run until then. With 0, the
	// account ignores services and the nodes that they keep.
	Horizon time.Duration
	// Explain fills in [cluster.Plan.Kept]. It changes nothing else.
	Explain bool
}

// Planner proposes moves for one configuration. It is not safe for concurrent use.
type Planner struct {
	config DrainConfig
	// since is when each under-used node became under-used.
	since map[string]time.Time
}

// NewPlanner returns a Planner without state.
func NewPlanner(c DrainConfig) *Planner {
	return &Planner{config: c, since: map[string]time.Time{}}
}

// Plan returns which nodes to drain and which empty nodes to release (HTAS, section 5.3 and algorithm 5).
//
// A node qualifies if it is not kept, has been under-used for long enough and the queue allows it. Nodes are tried from
// the least utilised on, ties by name. Every pod of a node needs a target among the other nodes, all or nothing. The
// pods choose in scheduling order, the packing algorithm selects each target, and room taken by one pod is not
// available to the next. A node that is being drained is not a target, nor is an empty node unless it is kept. A node
// that has become a target is not drained.
//
// A target must also pass the scheduler's filters: the constraints of the pod on the node, and those between it and the
// pods there (package constraint), while the nodes that are being drained still exist. A node without a Host has no
// labels and taints, and admits every pod.
//
// Without Worthwhile all pods leave at once, by the configured method if their [cluster.Ways] include it.
//
// With Worthwhile each pod leaves by the method that minimises the bill for the node as a whole. The node is paid, by
// started billing periods, until its last pod has left: waiting pods have ended, migrating pods have arrived, and
// evicted pods leave at once. The cost of moving a pod is that of the periods for which its target is needed longer,
// and at least the pod's share of the target for the time by which the move delays its end: the time of a migration
// and, with probability Risk, all completed work, which an eviction always repeats. A drain saves the periods for which
// the node would have been paid until its last pod ended by itself. A drain is done if its savings exceed its costs by
// Margin of the node's remaining cost. Ties go to fewer moves, then to migration. Without a Horizon, services cost and
// save nothing.
//
// Reserved room is not available to others: pods on their way are among the pods of their target, and pending pods with
// promised room (see [cluster.Pod]) occupy it.
//
// A node that waits for its last pods is uncordoned if the plan that cordoned it no longer holds: the pods have not
// ended in time, or the node has room for a pending pod.
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
	r := newPlanning(p.config, s)
	for _, n := range candidates {
		room := r.byName[n.Name]
		switch {
		case room.target:
			r.note(n, "it receives pods of other nodes")
		case room.promised != nil:
			r.note(n, "its free room is reserved for pod %s", room.promised.Name)
		case len(n.Pods) == 0:
			plan.Release = append(plan.Release, cluster.Release{Node: n.Name, Reason: "it is empty"})
			r.setLeaving(room, true)
		case p.config.Limit > 0 && len(plan.Drains) >= p.config.Limit:
			r.note(n, "the limit of %s is reached", plural.Count(p.config.Limit, "machine"))
		case r.budget.spent():
			r.note(n, "the limit of %d machines at the same time is reached", p.config.Budget.Machines)
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

// uncordon returns the nodes that need not wait for their last pods any more, by name.
func (p *Planner) uncordon(s *cluster.State) []cluster.Stay {
	var all []cluster.Stay
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Phase != cluster.Leaving || !n.Waits || len(n.Pods) == 0 {
			continue
		}
		if n.Until <= 0 {
			all = append(all, cluster.Stay{Node: n.Name, Reason: fmt.Sprintf("%d of its pods still run, %v after their expected end", len(n.Pods), -n.Until.Round(time.Second))})
		} else if at := slices.IndexFunc(s.Pending, func(pod cluster.Pod) bool { return wanted(&pod, n) }); at >= 0 {
			all = append(all, cluster.Stay{Node: n.Name, Reason: fmt.Sprintf("it has room for pod %s, which is pending", s.Pending[at].Name)})
		}
	}
	return all
}

// Uncordoned returns the cluster after the given nodes have been uncordoned. It shares the rest with s.
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

// wanted reports whether the node has room for a pending pod that has no other place yet.
func wanted(pod *cluster.Pod, n *cluster.Node) bool {
	return !pod.Nominated && pod.Promised == "" && n.HasRoom(pod)
}
