// Package moves decides which nodes are emptied and where their pods go.
//
// It is the one planner of moves: the descheduler and the simulator call
// [Planner.Plan]. It acts on nothing and needs no clock; what it remembers from one call to
// the next, since when each node has been under-used, is in the [Planner].
package moves

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// Measure is how the utilisation of a node is reckoned from the requests.
type Measure int

const (
	// Mean is the mean of the requested shares of CPU and memory, as in HTAS.
	Mean Measure = iota
	// Dominant is the greater of both shares, as in cluster-autoscaler.
	Dominant
)

// Config says which nodes are emptied, when, and how.
type Config struct {
	// Threshold is the utilisation below which a node is under-used, from 0 to 1.
	Threshold float64
	// Measure is how utilisation is reckoned.
	Measure Measure
	// After is for how long without a break a node must have been under-used. Time in
	// which pods are on their way to it does not count.
	After time.Duration
	// QueueEmpty is for how long no batch pod may have been pending. Above zero, it
	// holds back only nodes that take batch pods; those of services alone wait until no
	// service is pending.
	QueueEmpty time.Duration
	// AnyPending holds everything back while any pod is pending.
	AnyPending bool
	// Method is how pods leave.
	Method cluster.Method
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
	// Worthwhile empties a node only where that is expected to save more than it
	// costs: see [Planner.Plan]. Services that are moved are left out of the account.
	Worthwhile bool
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

// Plan says which nodes to empty and which empty ones to give back (HTAS,
// section 5.3 and algorithm 5).
//
// A node qualifies when it may go at all, has been under-used for long enough and
// the queue allows it. Nodes are tried from the worst utilised on, ties by name. Every pod of a
// node needs a target among the other nodes, all or nothing: the pods choose in the
// order in which they would be scheduled, a target is what the packing algorithm
// picks, and what one pod takes the next cannot have. A node that is being
// emptied is no target, nor is an empty one; a node that has become a target is not
// emptied.
//
// With Worthwhile the bill decides too. A drain saves the periods that the node
// would have been paid for until its last pod has ended; it costs the periods for
// which its targets are then needed longer. It is done if the first is more.
//
// Cost: O(n·log n) for n nodes, plus O(n) for each pod on a node that qualifies.
func (p *Planner) Plan(now time.Time, s *cluster.State) cluster.Plan {
	p.observe(now, s)
	r := newRound(p.config, s)
	var plan cluster.Plan
	for _, n := range p.candidates(now, s) {
		switch {
		case r.taken[n.Name] || n.Incoming > 0:
		case len(n.Pods) == 0:
			plan.Release = append(plan.Release, cluster.Release{Node: n.Name, Reason: "it is empty"})
			r.leaving[n.Name] = true
		case p.config.Limit == 0 || len(plan.Drains) < p.config.Limit:
			if d, ok := r.drain(n); ok {
				plan.Drains = append(plan.Drains, d)
				r.leaving[n.Name] = true
			}
		}
	}
	plan.Wake = p.wake(now, s)
	return plan
}

// observe notes which nodes are under-used.
func (p *Planner) observe(now time.Time, s *cluster.State) {
	seen := make(map[string]time.Time, len(p.since))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Phase != cluster.Ready || n.Kept || n.Incoming > 0 || p.config.Utilization(n) >= p.config.Threshold && len(n.Pods) > 0 {
			continue
		}
		since, ok := p.since[n.Name]
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
		wait := since.Add(p.config.After).Sub(now)
		if s.Nodes[i].Class != class.Service {
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
		if since, ok := p.since[n.Name]; ok && now.Sub(since) >= p.config.After && p.queueAllows(n, s) {
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
	if p.config.QueueEmpty == 0 {
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

// round is one planning round: the room left once what was planned is done.
type round struct {
	config  Config
	state   *cluster.State
	rooms   []room
	taken   map[string]bool // nodes that became targets
	leaving map[string]bool // nodes that are being emptied or given back
	spare   int             // how many machines may still be bought
}

// room is what is left on a node.
type room struct {
	packing.Node
	node *cluster.Node
	pods int64
}

func newRound(c Config, s *cluster.State) *round {
	r := &round{
		config: c, state: s, taken: map[string]bool{}, leaving: map[string]bool{}, spare: s.MaxNodes - len(s.Nodes),
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Phase == cluster.Ready {
			r.rooms = append(r.rooms, room{
				Node: packing.Node{Name: n.Name, Free: n.Free(), Remaining: n.Remaining()},
				node: n, pods: int64(len(n.Pods)),
			})
		}
	}
	return r
}

// drain plans the emptying of a node, and reserves what it takes.
func (r *round) drain(n *cluster.Node) (cluster.Drain, bool) {
	for i := range n.Pods {
		if n.Pods[i].Fixed || n.Pods[i].Class == class.Service && !r.config.MoveServices {
			return cluster.Drain{}, false
		}
	}
	moves, changed := r.targets(n)
	if moves == nil {
		return r.replace(n)
	}
	d := cluster.Drain{Node: n.Name, Method: r.config.Method, Moves: moves}
	d.Reason = fmt.Sprintf("%.0f%% utilised, and its %d pods fit on other nodes", 100*r.config.Utilization(n), len(moves))
	if r.config.Worthwhile {
		d.Saves, d.Costs = r.saves(n), r.costs(changed)
		if d.Saves <= d.Costs {
			return cluster.Drain{}, false
		}
		d.Reason += fmt.Sprintf("; saves $%.6f for $%.6f", float64(d.Saves)/1e6, float64(d.Costs)/1e6)
	}
	for at, after := range changed {
		r.rooms[at] = after
		r.taken[after.Name] = true
	}
	return d, true
}

// targets finds a node for every pod of n, or returns nil. changed are the rooms as
// they will be, by place.
func (r *round) targets(n *cluster.Node) (moves []cluster.Move, changed map[int]room) {
	changed = map[int]room{}
	pods := slices.Clone(n.Pods)
	slices.SortFunc(pods, cluster.Scheduled)
	for i := range pods {
		at := r.target(n, &pods[i], changed)
		if at < 0 {
			return nil, nil
		}
		after := r.at(at, changed)
		after.Free = after.Free.Minus(pods[i].Size)
		after.Remaining = max(after.Remaining, pods[i].Runtime+r.pause(&pods[i]))
		after.pods++
		changed[at] = after
		moves = append(moves, cluster.Move{Pod: pods[i].Name, Target: after.Name})
	}
	slices.SortFunc(moves, func(a, b cluster.Move) int { return cmp.Compare(a.Pod, b.Pod) })
	return moves, changed
}

// target returns the place of the node that takes the pod, or -1.
func (r *round) target(from *cluster.Node, pod *cluster.Pod, changed map[int]room) int {
	prefer := packing.CompareFit
	if pod.Class == class.Batch && r.config.Cycle > 0 {
		prefer = packing.CompareTimeBin(pod.Runtime, r.config.Cycle)
	}
	best := -1
	for at := range r.rooms {
		to := r.at(at, changed)
		if to.node == from || r.leaving[to.Name] || len(to.node.Pods) == 0 || !to.holds(pod) {
			continue
		}
		if best < 0 || prefer(to.Node, r.at(best, changed).Node) < 0 {
			best = at
		}
	}
	return best
}

func (r *round) at(at int, changed map[int]room) room {
	if after, ok := changed[at]; ok {
		return after
	}
	return r.rooms[at]
}

func (r room) holds(pod *cluster.Pod) bool {
	return r.node.Suits(pod) && pod.Size.Fits(r.Free) && (r.node.MaxPods == 0 || r.pods < r.node.MaxPods)
}

// pause is how long a move keeps a pod from its work.
func (r *round) pause(pod *cluster.Pod) time.Duration {
	if r.config.Method == cluster.Evict {
		return pod.Ran
	}
	return r.state.Migration.Time(pod.Size.MemoryBytes)
}

// replace plans a cheaper machine for all pods of a node.
func (r *round) replace(n *cluster.Node) (cluster.Drain, bool) {
	if !r.config.Replace || r.spare <= 0 {
		return cluster.Drain{}, false
	}
	used := n.Used()
	var best *cluster.Flavor
	for i := range r.state.Flavors {
		f := &r.state.Flavors[i]
		if f.Arch != n.Arch || !used.Fits(f.Size) || f.MaxPods > 0 && int64(len(n.Pods)) > f.MaxPods ||
			f.MicroDollarsPerHour >= n.MicroDollarsPerHour {
			continue
		}
		if best == nil || f.MicroDollarsPerHour < best.MicroDollarsPerHour {
			best = f
		}
	}
	if best == nil {
		return cluster.Drain{}, false
	}
	r.spare--
	reason := fmt.Sprintf("%.0f%% utilised, and %s holds its %d pods for less", 100*r.config.Utilization(n), best.Name, len(n.Pods))
	return cluster.Drain{
		Node: n.Name, Method: r.config.Method, Reason: reason,
		Replacement: &cluster.Purchase{Flavor: best.Name, Class: n.Class, Pods: names(n.Pods), Reason: "in the place of " + n.Name},
	}, true
}

func names(pods []cluster.Pod) []string {
	all := make([]string, len(pods))
	for i := range pods {
		all[i] = pods[i].Name
	}
	return all
}
