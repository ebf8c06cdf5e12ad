package moves

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// trial is the emptying of some nodes, as far as it has been worked out. Their pods
// take room that the rest of the round does not have, until rollback gives it back.
type trial struct {
	*round
	// wait is how long it takes until the pods leave.
	wait  time.Duration
	from  []*room
	saved map[int]room // what rooms with new pods were before, by place in the state
	moved []moved
	left  []cluster.Pod // that found no room
	uses  []use         // of costs, which is asked often
	// waiting are the pods that stay until they end.
	waiting []cluster.Pod
}

// moved is a pod that has found a room.
type moved struct {
	pod cluster.Pod
	to  *room
}

// fillMode is how a trial looks for room.
type fillMode int

const (
	// allOrNothing stops once a pod cannot find any.
	allOrNothing fillMode = iota
	// partial takes what there is.
	partial
	// withinStay takes what there is on nodes that are needed for so long anyway.
	withinStay
)

// try begins a trial: the pods of these nodes are taken off them.
func (r *round) try(nodes ...*cluster.Node) *trial {
	t := &trial{round: r, saved: map[int]room{}}
	for _, n := range nodes {
		from := r.byName[n.Name]
		from.leaving = true
		t.from = append(t.from, from)
		r.rules.removeAll(n, from.at)
	}
	return t
}

// tryMoving begins a trial in which some pods of a node move and the others stay.
func (r *round) tryMoving(n *cluster.Node, pods []cluster.Pod) *trial {
	from := r.byName[n.Name]
	from.leaving = true
	for i := range pods {
		r.rules.remove(&pods[i], from.at)
	}
	return &trial{round: r, saved: map[int]room{}, from: []*room{from}, moved: make([]moved, 0, len(n.Pods))}
}

// archBound returns the pods of a node as they look for a place. The state of one that may be
// migrated continues only on the architecture where it is.
func (r *round) archBound(n *cluster.Node) []cluster.Pod {
	t := trial{round: r}
	all := slices.Clone(n.Pods)
	for i := range all {
		if p := &all[i]; p.Arch == "" && r.ways(p).Has(cluster.Migrate) && (r.config.Worthwhile || t.way(p) == cluster.Migrate) {
			p.Arch = n.Arch
		}
	}
	return all
}

// rollback leaves the round as it was before the trial.
func (t *trial) rollback() {
	for _, from := range t.from {
		from.leaving = false
	}
	for _, m := range t.moved {
		if was, ok := t.saved[m.to.at]; ok {
			*m.to = was
		}
	}
	t.rules.rollback()
}

// commit makes the trial part of the round.
func (t *trial) commit() {
	for _, m := range t.moved {
		m.to.target = true
	}
	t.rules.commit()
}

// fill finds rooms for the pods, in the order in which they would be scheduled. A pod
// that only the demands of pods on other pods keep out is tried again once others have
// found room, since it may want to be where one of those is.
func (t *trial) fill(pods []cluster.Pod, how fillMode) {
	t.left = slices.Clone(pods)
	slices.SortFunc(t.left, cluster.Scheduled)
	for again := true; again && len(t.left) > 0; {
		was := len(t.left)
		again = t.pass(how) && len(t.left) < was
	}
}

// pass tries each pod once. It reports whether it makes sense to do so again, should
// any have found room.
func (t *trial) pass(how fillMode) (again bool) {
	waiting := t.left
	t.left = nil
	for i := range waiting {
		to, retriable := t.target(&waiting[i], how)
		if to != nil {
			t.put(waiting[i], to)
			continue
		}
		t.left = append(t.left, waiting[i])
		if retriable {
			again = true
		} else if how == allOrNothing && t.why == nil { // rooms only become fuller
			return false
		}
	}
	return again
}

// target returns the room that takes the pod, or nil. It is retriable if there is one that
// only the demands of pods on other pods keep it out of.
func (t *trial) target(pod *cluster.Pod, how fillMode) (best *room, retriable bool) {
	prefer := packing.CompareFit
	if pod.Class == class.Batch && t.config.Cycle > 0 {
		prefer = packing.CompareTimeBin(pod.Runtime, t.config.Cycle)
	}
	for _, to := range t.rooms {
		if !to.accepts() || !to.holds(pod) || best != nil && prefer(to.Node, best.Node) >= 0 || !t.rules.suits(pod, to) ||
			how == withinStay && t.until(pod) > to.stay {
			continue
		}
		if t.rules.conflict(pod, to.at) != "" {
			retriable = true
			continue
		}
		best = to
	}
	return best, retriable
}

// put moves a pod into a room.
func (t *trial) put(pod cluster.Pod, to *room) {
	if _, ok := t.saved[to.at]; !ok {
		t.saved[to.at] = *to
	}
	to.Free = to.Free.Minus(pod.Size)
	to.Remaining = max(to.Remaining, pod.Runtime+t.lost(&pod))
	to.stay = max(to.stay, t.until(&pod))
	to.pods++
	t.rules.place(&pod, to.at)
	t.moved = append(t.moved, moved{pod, to})
}

// feasible reports whether each pod that was moved could join those that are around it
// in the end, in whatever order they came.
func (t *trial) feasible() bool {
	return !slices.ContainsFunc(t.moved, func(m moved) bool { return !t.rules.feasible(&m.pod, m.to.at) })
}

// plan returns the moves, by the names of pods.
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

func byPod(a, b cluster.Move) int { return cmp.Compare(a.Pod, b.Pod) }
