package moves

import (
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// planning is one planning round. It holds the room that remains after what has been planned so far.
type planning struct {
	config DrainConfig
	state  *cluster.State
	rooms  []*room
	byName map[string]*room // by the names of nodes
	rules  *rules
	spare  int // how many machines may still be bought
	bought map[string]int
	// why holds the reasons why nodes stay; nil if they are not needed.
	why map[string]string
	// horizon is [DrainConfig.Horizon].
	horizon time.Duration
	// risk is the probability that a migration fails, 0 without Worthwhile.
	risk   float64
	budget *allowance
	// targets finds rooms; nil before the first search.
	targets *targets
}

// room is the room left on a node.
type room struct {
	packing.Node
	node *cluster.Node
	// pods is the number of pods.
	pods int
	// at is the index of the node in the state.
	at int
	// stay is how long the node is needed: see until.
	stay time.Duration
	// target means that pods of other nodes go there, leaving that the node is being drained or released.
	target, leaving bool
	// staying means that the node is not about to be released. An empty node is, unless it is kept or has promised
	// room.
	staying bool
	// promised is the first pending pod, by name, to which room is promised; nil if there is none.
	promised *cluster.Pod
}

func newPlanning(c DrainConfig, s *cluster.State) *planning {
	r := &planning{
		config: c, state: s, byName: make(map[string]*room, len(s.Nodes)), rules: newRules(s), spare: s.MaxNodes - len(s.Nodes), bought: map[string]int{},
		horizon: c.Horizon, budget: newAllowance(c.Budget, s),
	}
	switch {
	case !c.Worthwhile:
	case c.Risk == 0:
		r.risk = DefaultRisk
	default:
		r.risk = max(c.Risk, 0)
	}
	if c.Explain {
		r.why = map[string]string{}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Phase == cluster.Ready {
			to := &room{Node: packing.Node{Name: n.Name, Free: n.Free(), Remaining: n.Remaining()}, node: n, pods: len(n.Pods), at: i}
			to.stay, to.staying = r.stay(n), len(n.Pods) > 0 || n.Kept
			r.rooms = append(r.rooms, to)
			r.byName[n.Name] = to
		}
	}
	r.promise()
	return r
}

// promise reserves the room that is promised to pending pods.
func (r *planning) promise() {
	for i := range r.state.Pending {
		p := &r.state.Pending[i]
		to := r.byName[p.Promised]
		if to == nil {
			continue
		}
		to.Free = to.Free.Minus(p.Size)
		to.Remaining = max(to.Remaining, p.Runtime)
		to.stay = max(to.stay, r.until(p))
		to.pods++
		r.rules.place(p, to.at)
		to.staying = true
		if to.promised == nil {
			to.promised = p
		}
	}
	r.rules.commit()
}

// accepts reports whether the node may be a target at all.
func (r *room) accepts() bool { return r.staying && !r.leaving }

// holds reports whether there is room for the pod.
func (r *room) holds(pod *cluster.Pod) bool {
	return pod.Size.Fits(r.Free) && r.node.Takes(r.pods+1)
}

func names(pods []cluster.Pod) []string {
	all := make([]string, len(pods))
	for i := range pods {
		all[i] = pods[i].Name
	}
	return all
}
