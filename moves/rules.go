package moves

import (
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// rules decide which pods may be on which nodes, regardless of free room. Constraints on the node alone are evaluated
// once for all pods with the same constraints. If any pod of the cluster has constraints that depend on other pods, or
// takes volumes or ephemeral storage of its node, a tracker records all nodes and the pods with such constraints.
//
// Nodes that are being drained stay in the tracker without pods until the end of the round, because the scheduler still
// sees them while their pods are placed.
type rules struct {
	state *cluster.State
	// verdicts record whether a node admits a pod, by index in the state: yes, no, or 0 if not evaluated yet.
	verdicts map[*constraint.Pod][]verdict
	static   map[string][]verdict // the same slices, by static key

	tracker *constraint.Tracker      // nil if no pod's placement depends on others
	coupled map[*constraint.Pod]bool // those of which the tracker must know
	hosts   []int                    // host ids in the tracker, by index in the state
	log     []shift
}

type verdict int8

const (
	yes verdict = 1
	no  verdict = -1
)

// shift is a change of the tracker.
type shift struct {
	pod     *constraint.Pod // nil if a host was added
	host    int
	removed bool
}

func newRules(s *cluster.State) *rules {
	r := &rules{state: s, verdicts: map[*constraint.Pod][]verdict{}, static: map[string][]verdict{}}
	r.coupled = s.Tracked(func(p *cluster.Pod) bool { return p.Promised != "" })
	if len(r.coupled) > 0 {
		r.track()
	}
	return r
}

func (r *rules) track() {
	r.tracker = constraint.NewTracker()
	for i := range r.state.Nodes {
		n := &r.state.Nodes[i]
		r.hosts = append(r.hosts, r.tracker.AddHost(hostOf(n.Host, n.Name)))
		for j := range n.Pods {
			if d := n.Pods[j].Demands; r.coupled[d] {
				r.tracker.Place(d, r.hosts[i])
			}
		}
	}
}

// hostOf returns the host, or one with the given name and without labels and taints if h is nil.
func hostOf(h *constraint.Host, name string) *constraint.Host {
	if h == nil {
		return &constraint.Host{Name: name}
	}
	return h
}

// suits is [cluster.Node.Suits], evaluated once for all pods with the same constraints.
func (r *rules) suits(pod *cluster.Pod, to *room) bool {
	if pod.Demands == nil || to.node.Host == nil {
		return to.node.Suits(pod)
	}
	if !to.node.Class.Takes(pod.Class) || pod.Arch != "" && pod.Arch != to.node.Arch {
		return false
	}
	of := r.verdicts[pod.Demands]
	if of == nil {
		key := pod.Demands.StaticKey()
		if of = r.static[key]; of == nil {
			of = make([]verdict, len(r.state.Nodes))
			r.static[key] = of
		}
		r.verdicts[pod.Demands] = of
	}
	if of[to.at] == 0 {
		of[to.at] = no
		if pod.Demands.Admits(to.node.Host) == "" {
			of[to.at] = yes
		}
	}
	return of[to.at] == yes
}

// conflict returns the constraint on other pods that keeps the pod off a node, or "".
func (r *rules) conflict(pod *cluster.Pod, at int) string {
	if !r.coupled[pod.Demands] {
		return ""
	}
	return r.tracker.Check(pod.Demands, r.hosts[at])
}

// removeAll removes all pods from a node.
func (r *rules) removeAll(n *cluster.Node, at int) {
	if r.tracker == nil {
		return
	}
	for i := range n.Pods {
		r.remove(&n.Pods[i], at)
	}
}

// remove removes a pod from a node.
func (r *rules) remove(p *cluster.Pod, at int) {
	if d := p.Demands; r.coupled[d] {
		r.tracker.Unplace(d, r.hosts[at])
		r.log = append(r.log, shift{d, r.hosts[at], true})
	}
}

// place places a pod on a node.
func (r *rules) place(pod *cluster.Pod, at int) {
	if r.coupled[pod.Demands] {
		r.placeOn(pod.Demands, r.hosts[at])
	}
}

func (r *rules) placeOn(pod *constraint.Pod, host int) {
	r.tracker.Place(pod, host)
	r.log = append(r.log, shift{pod, host, false})
}

// feasible reports whether a pod that was placed on a node satisfies the constraints with the pods that are there now.
func (r *rules) feasible(pod *cluster.Pod, at int) bool {
	return !r.coupled[pod.Demands] || r.feasibleOn(pod.Demands, r.hosts[at])
}

func (r *rules) feasibleOn(pod *constraint.Pod, host int) bool {
	r.tracker.Unplace(pod, host)
	why := r.tracker.Check(pod, host)
	r.tracker.Place(pod, host)
	return why == ""
}

// rollback undoes the changes since the last commit.
func (r *rules) rollback() {
	for _, s := range slices.Backward(r.log) {
		switch {
		case s.pod == nil:
			r.tracker.RemoveHost(s.host)
		case s.removed:
			r.tracker.Place(s.pod, s.host)
		default:
			r.tracker.Unplace(s.pod, s.host)
		}
	}
	r.commit()
}

// commit makes the changes final.
func (r *rules) commit() { r.log = r.log[:0] }

// addMachine adds a machine of a flavor and returns its host id.
func (r *rules) addMachine(f *cluster.Flavor) int {
	host := r.tracker.AddHost(hostOf(f.Host, ""))
	r.log = append(r.log, shift{host: host})
	return host
}

// replaceable reports whether all pods of the node may run together on a new machine of the flavor.
func (r *rules) replaceable(n *cluster.Node, f *cluster.Flavor) bool {
	for i := range n.Pods {
		if d := n.Pods[i].Demands; d != nil && f.Host != nil && d.Admits(f.Host) != "" {
			return false
		}
	}
	if r.tracker == nil {
		return true
	}
	at := slices.IndexFunc(r.state.Nodes, func(other cluster.Node) bool { return other.Name == n.Name })
	r.removeAll(n, at)
	host := r.addMachine(f)
	r.placeAll(n.Pods, host)
	ok := r.feasibleAll(n.Pods, host)
	r.rollback()
	return ok
}

// placeAll places pods on a host.
func (r *rules) placeAll(pods []cluster.Pod, host int) {
	for i := range pods {
		if r.coupled[pods[i].Demands] {
			r.placeOn(pods[i].Demands, host)
		}
	}
}

// feasibleAll reports whether each of the pods that were placed on a host satisfies the constraints with the pods that
// are there now.
func (r *rules) feasibleAll(pods []cluster.Pod, host int) bool {
	return !slices.ContainsFunc(pods, func(p cluster.Pod) bool {
		return r.coupled[p.Demands] && !r.feasibleOn(p.Demands, host)
	})
}
