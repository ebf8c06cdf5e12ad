package moves

import (
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// rules say which pods may be where, whether or not there is room. What a pod demands of
// a node alone is looked up once for all pods that demand the same. What depends on other
// pods is followed by a tracker, if any pod of the cluster has such demands: it has all
// nodes and those pods that have to do with one another.
//
// Nodes that are being emptied stay in it without pods until the round is over, as the
// scheduler sees them while their pods look for a place.
type rules struct {
	state *cluster.State
	// verdicts say whether a node admits a pod, by place in the state: yes, no or 0 if
	// nobody has asked.
	verdicts map[*constraint.Pod][]verdict
	static   map[string][]verdict // the same slices, by what they depend on

	tracker *constraint.Tracker // nil if no pod's place depends on others
	coupled map[*constraint.Pod]bool
	hosts   []int // in the tracker, by place in the state
	log     []shift
}

type verdict int8

const (
	yes verdict = 1
	no  verdict = -1
)

// shift is a change of the tracker.
type shift struct {
	pod     *constraint.Pod // nil if it is the host that came
	host    int
	removed bool
}

func newRules(s *cluster.State) *rules {
	r := &rules{state: s, verdicts: map[*constraint.Pod][]verdict{}, static: map[string][]verdict{}}
	r.coupled = coupled(s)
	if len(r.coupled) > 0 {
		r.track()
	}
	return r
}

// coupled returns the demands of those pods on nodes, or promised room there, whose place
// depends on that of others.
func coupled(s *cluster.State) map[*constraint.Pod]bool {
	var all []*constraint.Pod
	seen := map[*constraint.Pod]bool{nil: true}
	add := func(d *constraint.Pod) {
		if !seen[d] {
			seen[d] = true
			all = append(all, d)
		}
	}
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			add(s.Nodes[i].Pods[j].Demands)
		}
	}
	for i := range s.Pending {
		if s.Pending[i].Promised != "" {
			add(s.Pending[i].Demands)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return constraint.Coupled(all)
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

// hostOf returns the host, or one of that name without labels and taints.
func hostOf(h *constraint.Host, name string) *constraint.Host {
	if h == nil {
		return &constraint.Host{Name: name}
	}
	return h
}

// suits is [cluster.Node.Suits], which it asks once for all pods that demand the same.
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

// conflict says which demand on other pods keeps the pod off a node, if any.
func (r *rules) conflict(pod *cluster.Pod, at int) string {
	if !r.coupled[pod.Demands] {
		return ""
	}
	return r.tracker.Check(pod.Demands, r.hosts[at])
}

// removeAll takes all pods off a node.
func (r *rules) removeAll(n *cluster.Node, at int) {
	if r.tracker == nil {
		return
	}
	for i := range n.Pods {
		r.remove(&n.Pods[i], at)
	}
}

// remove takes a pod off a node.
func (r *rules) remove(p *cluster.Pod, at int) {
	if d := p.Demands; r.coupled[d] {
		r.tracker.Unplace(d, r.hosts[at])
		r.log = append(r.log, shift{d, r.hosts[at], true})
	}
}

// place puts a pod on a node.
func (r *rules) place(pod *cluster.Pod, at int) {
	if r.coupled[pod.Demands] {
		r.placeOn(pod.Demands, r.hosts[at])
	}
}

func (r *rules) placeOn(pod *constraint.Pod, host int) {
	r.tracker.Place(pod, host)
	r.log = append(r.log, shift{pod, host, false})
}

// feasible reports whether a pod that has been put on a node could join the others that
// are there now.
func (r *rules) feasible(pod *cluster.Pod, at int) bool {
	return !r.coupled[pod.Demands] || r.feasibleOn(pod.Demands, r.hosts[at])
}

func (r *rules) feasibleOn(pod *constraint.Pod, host int) bool {
	r.tracker.Unplace(pod, host)
	why := r.tracker.Check(pod, host)
	r.tracker.Place(pod, host)
	return why == ""
}

// rollback takes back what was done since the last commit.
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

// commit makes what was done final.
func (r *rules) commit() { r.log = r.log[:0] }

// addMachine adds a machine of a flavor and returns its host.
func (r *rules) addMachine(f *cluster.Flavor) int {
	host := r.tracker.AddHost(hostOf(f.Host, ""))
	r.log = append(r.log, shift{host: host})
	return host
}

// replaceable reports whether all pods of the node may be together on a new machine of
// the flavor.
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

// placeAll puts pods on a host.
func (r *rules) placeAll(pods []cluster.Pod, host int) {
	for i := range pods {
		if r.coupled[pods[i].Demands] {
			r.placeOn(pods[i].Demands, host)
		}
	}
}

// feasibleAll reports whether each of the pods that have been put on a host could join all
// others that are there now.
func (r *rules) feasibleAll(pods []cluster.Pod, host int) bool {
	return !slices.ContainsFunc(pods, func(p cluster.Pod) bool {
		return r.coupled[p.Demands] && !r.feasibleOn(p.Demands, host)
	})
}
