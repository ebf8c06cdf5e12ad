package fleetdecide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/disruption"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/moves"
)

// FleetOptions are what a NodeFleet may do in a round.
type FleetOptions struct {
	// Config is the configuration of the fleet, but its Limits bound what may still be bought.
	Config
	// Buy allows purchases: the gathering of pods has ended.
	Buy bool
	// Exhausted names the limit that is used up; empty if none is.
	Exhausted string
	// Budget is how many more machines may be drained or released.
	Budget int
	// Allowed is how many more may be for a reason. Reasons that are missing have no other limit than Budget.
	Allowed map[v1alpha1.FleetBudgetReason]disruption.Allowance
	// Replace are the machines to replace regardless of what that costs, the most urgent first.
	Replace []disruption.Replacement
	// Spare is the number of machines above the minimum, by flavor. Flavors that are missing have none.
	Spare map[string]int
	// Least is the minimum number of machines, by flavor. Flavors that are missing have none.
	Least map[string]int
	// Orders is how often machines have been ordered for a pending pod, by pod name.
	Orders map[string]int
	// Decided is the time since the first decision about a pending pod, by pod name. A pod that is missing is decided
	// about for the first time. With nil, it is the time since which each pod has been pending.
	Decided map[string]time.Duration
	// Lessons exclude flavors for certain pods, and learn from the observed nodes; nil excludes none.
	Lessons *Lessons
}

// FleetDecision is what a NodeFleet decides to do.
type FleetDecision struct {
	// Plan is what to buy, for which pods, at what price, and the lower bound of that price.
	Plan purchase.Result
	// Asked is the number of pods that the plan is for. Served is the number of pending pods that find room without a
	// purchase, no later than a purchase would give it.
	Asked, Served int
	// Expected is the number of pods yet to arrive for which the bought machines have room.
	Expected int
	// Deferral holds the pods that wait longer than that, because it is cheaper; nil if there are none.
	Deferral *Deferral
	// Withheld are machines that are not bought, because enough are on order; nil if there are none.
	Withheld *Withheld
	// Unexplained are pods, with reasons, that stay pending although a node seems to have room for them now. Nothing is
	// bought for them, because it might not help either.
	Unexplained []purchase.Unplaceable
	// roomy are the nodes that seem to have room for the unexplained pods. These nodes are kept.
	roomy map[string]bool
	// elsewhere are the pods that wait for machines of other fleets.
	elsewhere map[string]bool
	// Queued reports that a batch pod is pending that will run on a machine of this fleet or on an existing node.
	Queued bool
	// Learned describes the lessons of this round, for people.
	Learned []string
	// Limit names the limit that a planned machine exceeds, so that it is not ordered; empty if there is none.
	Limit string
	// ToMinimum is the number of machines that are ordered because flavors have fewer than their minimum, by flavor.
	ToMinimum map[string]int
	// Release are the empty machines to release, Drains the machines to drain.
	Release []cluster.Release
	Drains  []cluster.Drain
	// Exchange are machines to buy in place of others; nil if there are none.
	Exchange *cluster.Exchange
	// Terms are what the bought machines are expected to cost until they are empty again: one entry for each machine of
	// Plan, then of Exchange, in their order. Releases holds the compared costs for each entry of Release.
	Terms    []Terms
	Releases []ReleaseTerms
	// Kept are the under-used and empty nodes that are kept, with reasons.
	Kept []cluster.Stay
	// Wake is the time after which to decide again even if nothing happens; 0 means never.
	Wake time.Duration
}

// Fleet decides for a NodeFleet.
//
// Purchases are for the pods that will be unschedulable before a machine bought now would be ready, according to a forecast
// in which batch pods end as expected and ordered machines arrive. (HTAS, algorithm 4, subtracts the nodes of time bin
// 0; the forecast also knows which pod goes where.) Nominated pods cause no second purchase, even if the forecast packs
// them worse than the plan that bought for them. Pods whose placement depends on other pods are left out of the
// forecast; the plan places them where there is room before it buys anything for them.
//
// If the options allow it, pods wait longer for room that becomes free when that is cheaper (see [Deferral]).
//
// Regardless of forecasts, no more machines are on order than all waiting pods would need if they had come at once, plus
// a share (see bound).
//
// Empty machines are released at the end of their paid time, unless they will be used soon (see release). While nothing
// is bought, mover, which must have seen every round, chooses under-used machines to drain, and sets of machines are
// exchanged for cheaper ones if that pays (see [moves.Exchange]), and machines that must go are replaced, one at a time (see
// [moves.Replace]). Only pods that will run here keep machines (see
// waiting). A pod that fits no machine, or waits for one of another fleet, blocks nothing.
//
// Expendable pods keep no machine. Purchases count their room as taken nevertheless: the scheduler has tried to preempt them
// for a pod that is pending, unless the pod preempts none.
func Fleet(s *cluster.State, o FleetOptions, mover *moves.Planner, now time.Time) FleetDecision {
	var d FleetDecision
	if o.Lessons != nil {
		d.Learned = o.Lessons.Learn(s, now)
	}
	if o.Buy && len(s.Pending) > 0 {
		d.buy(s, o, now)
	}
	holding := *s
	holding.Nodes = cluster.WithoutExpendable(s.Nodes)
	holding.Pending = d.waiting(s, o, now)
	if d.Queued = slices.ContainsFunc(holding.Pending, func(p cluster.Pod) bool { return p.Class == class.Batch }); d.Queued {
		holding.QueueEmpty = 0
	}
	proposed := mover.Plan(now, &holding)
	d.Wake, d.Kept = proposed.Wake, proposed.Kept
	d.consolidate(&holding, o, proposed)
	d.wakeToBuy(s, o)
	d.account(s)
	return d
}

// Roomy returns the number of pending pods that find room without a purchase: those for which the plan was not made, and
// those that the plan puts on existing or ordered machines.
func (d *FleetDecision) Roomy() int {
	n := d.Served
	for i := range d.Plan.Assignments {
		if d.Plan.Assignments[i].Waits {
			n++
		}
	}
	return n
}

// everyPod selects all pending pods.
func everyPod(*cluster.Pod) bool { return true }

func (d *FleetDecision) buy(s *cluster.State, o FleetOptions, now time.Time) {
	coupled := s.Coupled(everyPod)
	alone := *s
	alone.Pending, alone.Recent = nil, nil // expected pods take no room from pending ones
	var asking []purchase.Pod
	classes := map[class.Class]bool{}
	ask := func(p *cluster.Pod, late bool) {
		pod := purchase.PodOf(p)
		pod.OnlyBought = late
		pod.Except = o.Lessons.Except(p, now)
		asking = append(asking, pod)
		classes[p.Class] = true
	}
	for _, p := range s.Pending {
		switch {
		case !coupled[p.Demands]:
			alone.Pending = append(alone.Pending, p)
		case !p.Nominated:
			ask(&p, false)
		}
	}
	late, promised := outwaited(s, &alone, o, now)
	for _, p := range late {
		ask(p, true)
	}
	alone.Pending = without(alone.Pending, late)
	f := newForecast(&alone, untilReady(s), nil)
	for _, w := range f.run() {
		if !w.pod.Nominated {
			ask(w.pod, false)
		}
	}
	d.findUnexplained(f.atOnce, o.Lessons, now)
	d.elsewhere = f.elsewhere
	d.Asked, d.Served = len(asking), len(s.Pending)-len(asking)
	if len(asking) == 0 {
		return
	}
	flavors := onSale(s.Flavors)
	if o.Exhausted != "" {
		flavors = nil
	}
	request := o.request(s, asking, f.left(classes), flavors, mixOptions(s))
	d.Plan = purchase.Supercargo(d.postpone(s, &alone, o, f, request))
	d.giveUpLate(late, promised)
	d.assignedElsewhere(s)
	if o.Exhausted == "" {
		b := newBound(s, o, flavors, coupled, now)
		if d.withhold(b, asking, flavors); d.Withheld == nil {
			d.grow(s, o, asking, flavors, coupled, b)
		}
		return
	}
	for i := range d.Plan.Unplaceable {
		u := &d.Plan.Unplaceable[i]
		u.Reason, u.Limited = o.Exhausted, true
		if at := slices.IndexFunc(asking, func(p purchase.Pod) bool { return p.Name == u.Pod }); at >= 0 {
			if why := unsuited(&asking[at], s.Flavors); why != "" {
				u.Reason, u.Limited = why, false
			}
		}
	}
}

// unsuited returns why no flavor takes a pod, however many machines could be bought, or "".
func unsuited(p *purchase.Pod, flavors []cluster.Flavor) string {
	all := slices.Clone(flavors)
	for i := range all {
		all[i] = all[i].Unlimited()
	}
	return purchase.Refusal(p, all)
}

// patience is how long a pod may stay pending although there is room for it before that is reported. The scheduler
// retries within seconds when room becomes free.
const patience = time.Minute

// findUnexplained records the pods that have room and do not use it. lessons, unless nil, learns the flavors of the fleet's
// nodes that seem to have room.
func (d *FleetDecision) findUnexplained(atOnce []placed, lessons *Lessons, now time.Time) {
	d.roomy = map[string]bool{}
	for _, p := range atOnce {
		if p.pod.Waited >= patience {
			d.roomy[p.node.Name] = true
			if lessons != nil && !p.node.Kept && !p.node.Outdated {
				lessons.Refused(p.pod.Name, p.node.Flavor, p.node.Name, now)
			}
			d.Unexplained = append(d.Unexplained, purchase.Unplaceable{Pod: p.pod.Name, Reason: fmt.Sprintf(
				"has waited for %v although node %s seems to have room for it: check the events of its scheduler", p.pod.Waited.Round(time.Second), p.node.Name)})
		}
	}
	slices.SortFunc(d.Unexplained, func(a, b purchase.Unplaceable) int { return cmp.Compare(a.Pod, b.Pod) })
}

// untilReady returns the time until a machine bought now and all ordered machines are ready.
func untilReady(s *cluster.State) time.Duration {
	until := s.Lag
	for i := range s.Nodes {
		if s.Nodes[i].Phase == cluster.Ordered {
			until = max(until, s.Nodes[i].Due)
		}
	}
	return until
}

// onSale returns the flavors of which a machine can be bought.
func onSale(flavors []cluster.Flavor) []cluster.Flavor {
	return slices.DeleteFunc(slices.Clone(flavors), func(f cluster.Flavor) bool { return !f.Sells(1) })
}

// left returns the open nodes that accept all classes of the given pods, as expected at the end of a forecast.
func (f *forecast) left(asking map[class.Class]bool) []purchase.ExistingNode {
	var nodes []purchase.ExistingNode
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.open && takesAll(n.node, asking) {
			left := purchase.NodeOf(n.node, n.Free, n.pods)
			if left.Host != nil {
				now := n.node.Attached()
				left.Host = left.Host.With(&n.attached, &now)
			}
			nodes = append(nodes, left)
		}
	}
	return nodes
}

// LowerBound returns a lower bound, in micro-dollars per hour, of the price of machines of the flavors that hold all
// the pods at once, with no limit on the machines of a flavor.
func LowerBound(pods []*cluster.Pod, flavors []cluster.Flavor) int64 {
	all := make([]purchase.Pod, len(pods))
	for i := range pods {
		all[i] = purchase.PodOf(pods[i])
	}
	kinds := make([]cluster.Flavor, len(flavors))
	for i, f := range flavors {
		kinds[i] = f.Unlimited()
	}
	least, _ := purchase.LowerBound(all, kinds)
	return least
}

// Unhoused returns the pods on a node that would be unschedulable on the other ready nodes if all of them left it now. The
// node must be one of the state.
func Unhoused(s *cluster.State, node string) []purchase.Unplaceable {
	return newHousing(s).unhoused(node)
}

// housing is the room on the nodes of a state, whose expendable pods take none. It computes once what is the same for the pods
// of all nodes that leave. It is right as long as the state does not change.
type housing struct {
	state *cluster.State
	nodes map[string]*cluster.Node
	// rooms are those of the ready nodes that accept both classes of pods, or the only one.
	rooms map[[2]bool][]purchase.ExistingNode
}

func newHousing(s *cluster.State) *housing {
	state := *s
	state.Nodes = cluster.WithoutExpendable(s.Nodes)
	h := &housing{state: &state, nodes: make(map[string]*cluster.Node, len(s.Nodes)), rooms: map[[2]bool][]purchase.ExistingNode{}}
	for i := range state.Nodes {
		h.nodes[state.Nodes[i].Name] = &state.Nodes[i]
	}
	return h
}

// unhoused is [Unhoused].
func (h *housing) unhoused(node string) []purchase.Unplaceable {
	n := h.nodes[node]
	if n == nil {
		return nil
	}
	pods := make([]purchase.Pod, len(n.Pods))
	classes := map[class.Class]bool{}
	for i := range n.Pods {
		pods[i] = purchase.PodOf(&n.Pods[i])
		classes[n.Pods[i].Class] = true
	}
	rooms := h.roomsFor(classes)
	if n.Phase == cluster.Ready {
		rooms = slices.DeleteFunc(slices.Clone(rooms), func(r purchase.ExistingNode) bool { return r.Name == node })
	}
	return purchase.Supercargo(purchase.Request{Pods: pods, Nodes: rooms}).Unplaceable
}

// roomsFor returns the rooms on the ready nodes that accept pods of all the classes.
func (h *housing) roomsFor(classes map[class.Class]bool) []purchase.ExistingNode {
	key := [2]bool{classes[class.Batch], classes[class.Service]}
	rooms, is := h.rooms[key]
	if is {
		return rooms
	}
	rooms = make([]purchase.ExistingNode, 0, len(h.state.Nodes))
	for i := range h.state.Nodes {
		if n := &h.state.Nodes[i]; n.Phase == cluster.Ready && takesAll(n, classes) {
			rooms = append(rooms, purchase.NodeOf(n, n.Free(), len(n.Pods)))
		}
	}
	h.rooms[key] = rooms
	return rooms
}

// takesAll reports whether a node accepts pods of all the classes.
func takesAll(n *cluster.Node, classes map[class.Class]bool) bool {
	return (!classes[class.Batch] || n.Class.Takes(class.Batch)) && (!classes[class.Service] || n.Class.Takes(class.Service))
}
