package moves

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// trial is the drain of some nodes while it is being planned. Their pods take room from the round until rollback
// returns it.
type trial struct {
	*planning
	// wait is the time until the pods leave.
	wait  time.Duration
	from  []*room
	saved map[int]room // rooms before they received new pods, by index in the state
	moved []moved
	left  []cluster.Pod // pods without room
	uses  []use         // scratch memory of costs, which is called often
	order []int         // and of pricesOfTargets
	// waiting are the pods that are waited for.
	waiting []cluster.Pod
}

// moved is a pod with its target.
type moved struct {
	pod cluster.Pod
	to  *room
}

// fillMode is how a trial fills room.
type fillMode int

const (
	// allOrNothing stops when a pod finds no room.
	allOrNothing fillMode = iota
	// partial places the pods that find room.
	partial
	// withinStay is partial, but only on nodes that are needed as long anyway.
	withinStay
)

// try begins a trial and removes the pods of the nodes from the rules.
func (r *planning) try(nodes ...*cluster.Node) *trial {
	t := &trial{planning: r, saved: map[int]room{}}
	for _, n := range nodes {
		from := r.byName[n.Name]
		r.setLeaving(from, true)
		t.from = append(t.from, from)
		r.rules.removeAll(n, from.at)
	}
	return t
}

// tryMoving begins a trial in which some pods of a node move and the others stay.
func (r *planning) tryMoving(n *cluster.Node, pods []cluster.Pod) *trial {
	from := r.byName[n.Name]
	r.setLeaving(from, true)
	for i := range pods {
		r.rules.remove(&pods[i], from.at)
	}
	return &trial{planning: r, saved: map[int]room{}, from: []*room{from}, moved: make([]moved, 0, len(n.Pods))}
}

// leavers returns the pods of a node as they would be on other nodes.
func (r *planning) leavers(n *cluster.Node) []cluster.Pod {
	t := trial{planning: r}
	all := make([]cluster.Pod, len(n.Pods))
	for i := range all {
		all[i] = t.leaver(n, &n.Pods[i])
	}
	return all
}

// leaver returns a pod of a node as it would be on another node. Its architecture is bound where needed: the state of a pod
// that may be migrated can only continue on its current architecture.
func (t *trial) leaver(n *cluster.Node, p *cluster.Pod) cluster.Pod {
	there := p.Elsewhere()
	if there.Arch == "" && t.ways(&there).Has(cluster.Migrate) && (t.config.Worthwhile || t.way(&there) == cluster.Migrate) {
		there.Arch = n.Arch
	}
	return there
}

// rollback restores the round as it was before the trial.
func (t *trial) rollback() {
	for _, from := range t.from {
		t.setLeaving(from, false)
	}
	for _, m := range t.moved {
		if was, ok := t.saved[m.to.at]; ok {
			*m.to = was
			t.targets.touch(m.to)
		}
	}
	t.rules.rollback()
}

// commit applies the trial to the round.
func (t *trial) commit() {
	for _, m := range t.moved {
		m.to.target = true
	}
	t.rules.commit()
}

// fill finds rooms for the pods in scheduling order. A pod that only constraints on other pods reject is tried again
// after others have been placed, because it may have affinity to one of them. The trial keeps pods and changes it.
func (t *trial) fill(pods []cluster.Pod, how fillMode) {
	t.left = pods
	slices.SortFunc(t.left, cluster.Scheduled)
	for again := true; again && len(t.left) > 0; {
		was := len(t.left)
		again = t.pass(how) && len(t.left) < was
	}
}

// pass tries each pod once. It reports whether another pass makes sense if any pod has been placed.
func (t *trial) pass(how fillMode) (again bool) {
	waiting := t.left
	t.left = waiting[:0] // never more than have been tried
	for i := range waiting {
		to, retriable := t.target(&waiting[i], how)
		if to != nil {
			t.put(waiting[i], to)
			continue
		}
		t.left = append(t.left, waiting[i])
		if retriable {
			again = true
		} else if how == allOrNothing && t.why == nil { // rooms only get fuller
			return false
		}
	}
	return again
}

// put places a pod in a room.
func (t *trial) put(pod cluster.Pod, to *room) {
	if _, ok := t.saved[to.at]; !ok {
		t.saved[to.at] = *to
	}
	to.Free = to.Free.Minus(pod.Size)
	to.Remaining = max(to.Remaining, pod.Runtime+t.lost(&pod))
	to.stay = max(to.stay, t.until(&pod))
	to.pods++
	t.targets.touch(to)
	t.rules.place(&pod, to.at)
	t.moved = append(t.moved, moved{pod, to})
}

// feasible reports whether the constraints of each moved pod hold in the final placement, in whatever order the pods
// move.
func (t *trial) feasible() bool {
	return !slices.ContainsFunc(t.moved, func(m moved) bool { return !t.rules.feasible(&m.pod, m.to.at) })
}

// plan returns the moves, sorted by pod name.
func (t *trial) plan() []cluster.Move {
	var all []cluster.Move
	for i := range t.moved {
		p, to := &t.moved[i].pod, t.moved[i].to
		way := t.way(p)
		m := cluster.Move{Pod: p.Name, Target: to.Name, Method: way, Takes: t.takes(p, way)}
		if t.config.Worthwhile {
			m.Costs = shareOf(to.node, p.Size, t.delay(p, way))
		}
		all = append(all, m)
	}
	slices.SortFunc(all, byPod)
	return all
}

// waits reports whether a pod is waited for.
func (t *trial) waits(p *cluster.Pod) bool {
	return slices.ContainsFunc(t.waiting, func(w cluster.Pod) bool { return w.Name == p.Name })
}

func byPod(a, b cluster.Move) int { return cmp.Compare(a.Pod, b.Pod) }
