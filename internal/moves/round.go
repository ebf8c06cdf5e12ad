package moves

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// round is one planning round: the room left once what was planned is done.
type round struct {
	config Config
	state  *cluster.State
	rooms  []*room
	byName map[string]*room // by the names of nodes
	rules  *rules
	spare  int // how many machines may still be bought
	bought map[string]int
	// why says of nodes why they stay; nil if nobody asks.
	why map[string]string
	// horizon is how far an exchange looks.
	horizon time.Duration
}

// room is what is left on a node.
type room struct {
	packing.Node
	node *cluster.Node
	pods int64
	// at is the place of the room, and of the node in the state.
	at int
	// stay is for how long it is needed: see until.
	stay time.Duration
	// target says that pods of other nodes go there, leaving that it is being emptied or
	// given back.
	target, leaving bool
}

func newRound(c Config, s *cluster.State) *round {
	r := &round{
		config: c, state: s, byName: make(map[string]*room, len(s.Nodes)), rules: newRules(s), spare: s.MaxNodes - len(s.Nodes), bought: map[string]int{},
	}
	if c.Explain {
		r.why = map[string]string{}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Phase == cluster.Ready {
			to := &room{Node: packing.Node{Name: n.Name, Free: n.Free(), Remaining: n.Remaining()}, node: n, pods: int64(len(n.Pods)), at: i}
			r.rooms = append(r.rooms, to)
			r.byName[n.Name] = to
		}
	}
	return r
}

// open reports whether pods of other nodes may go there at all. What is empty is about to
// be given back, unless it is kept.
func (r *room) open() bool {
	return !r.leaving && (len(r.node.Pods) > 0 || r.node.Kept)
}

// holds reports whether there is room for the pod.
func (r *room) holds(pod *cluster.Pod) bool {
	return pod.Size.Fits(r.Free) && (r.node.MaxPods == 0 || r.pods < r.node.MaxPods)
}

// drain plans the emptying of a node, and reserves what it takes.
func (r *round) drain(n *cluster.Node) (cluster.Drain, bool) {
	if why, p := r.stays(n); p != nil {
		r.note(n, why, p.Name)
		return cluster.Drain{}, false
	}
	t := r.try(n)
	t.fill(n.Pods, whole)
	if len(t.left) > 0 || !t.settled() {
		t.noteNowhere(n)
		t.undo()
		return r.replace(n)
	}
	d := cluster.Drain{Node: n.Name, Method: r.config.Method, Moves: r.planOf(t.moved)}
	d.Reason = fmt.Sprintf("%.0f%% utilised, and its %d pods fit on other nodes", 100*r.config.Utilization(n), len(d.Moves))
	if r.config.Worthwhile {
		d.Saves, d.Costs = r.saves(n), t.costs()
		if d.Saves <= d.Costs {
			r.notePrice(n, d.Saves, d.Costs)
			t.undo()
			return cluster.Drain{}, false
		}
		d.Reason += fmt.Sprintf("; saves $%.6f for $%.6f", float64(d.Saves)/1e6, float64(d.Costs)/1e6)
	}
	t.keep()
	return d, true
}

// stays returns the first pod of the node that must not be moved, if any, with a format for
// its name that says why.
func (r *round) stays(n *cluster.Node) (why string, first *cluster.Pod) {
	for i := range n.Pods {
		switch p := &n.Pods[i]; {
		case p.Fixed:
			return "pod %s must not be moved", p
		case p.Class == class.Service && !r.config.MoveServices:
			return "pod %s is of a service, and those are not moved", p
		}
	}
	return "", nil
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
			f.MicroDollarsPerHour >= n.MicroDollarsPerHour || f.Most < 0 || f.Most > 0 && r.bought[f.Name] >= f.Most {
			continue
		}
		if (best == nil || f.MicroDollarsPerHour < best.MicroDollarsPerHour) && r.rules.takeTheirPlace(n, f) {
			best = f
		}
	}
	if best == nil {
		return cluster.Drain{}, false
	}
	r.spare--
	r.bought[best.Name]++
	r.byName[n.Name].leaving = true
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
