package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/moves"
)

// FleetOptions say what a NodeFleet may do in a round.
type FleetOptions struct {
	// Buy says that machines may be bought: no more pods are waited for.
	Buy bool
	// Limits bound what may still be bought. Exhausted says which
	// of them allows for nothing more; empty if none.
	Limits    cluster.Limits
	Exhausted string
	// Empty and UnderUsed say which machines may be released.
	Empty, UnderUsed bool
	// MoveServices says that pods of services may leave their machines as others may.
	MoveServices bool
	// Budget is how many more machines may be sent on their way out.
	Budget int
	// Class is which pods the machines take.
	Class class.Class
	// Horizon is how long the cluster is taken to stay as it is, Residence how long a
	// machine stays at least before it may be exchanged for others.
	Horizon, Residence time.Duration
	// PodResidence is how long a pod stays on its machine at least before it is moved.
	PodResidence time.Duration
	// Spare is how many machines of a flavor there are above the least that there must
	// be. Flavors that are missing have none.
	Spare map[string]int
	// MaxWait is for how much longer than a machine takes a pod may wait for room that comes
	// free, where that is cheaper; 0 means not at all.
	MaxWait time.Duration
	// Orders is how often machines have been ordered for a pod that waits, by its name.
	Orders map[string]int
	// Decided is for how long pods that wait have been decided about, by name; a pod that is not
	// there is so for the first time. nil means for as long as each has waited.
	Decided map[string]time.Duration
	// Lessons say which flavors are not bought for a pod, and learn from what is seen; nil
	// says nothing.
	Lessons *Lessons
	// Stop is asked from time to time whether to make do with the best plan so far; nil
	// never stops.
	Stop func() bool
}

// FleetDecision is what a NodeFleet is to do.
type FleetDecision struct {
	// Plan is what to buy, for which pods, at what price and above which bound.
	Plan planner.Result
	// Asked is how many pods the plan is for, and Served how many of those that wait
	// are going to find room without a purchase, by the time that one would take.
	Asked, Served int
	// Expected is how many pods that have yet to come the machines have room for.
	Expected int
	// Deferral has the pods that wait for longer than that, since it is cheaper; nil if none
	// does.
	Deferral *Deferral
	// Unexplained are pods, with reasons, that wait although there is room for them now, as
	// far as can be seen. Nothing is bought for them: it might not help either.
	Unexplained []planner.Unplaceable
	// puzzled are the nodes that seem to have room for them: they stay.
	puzzled map[string]bool
	// elsewhere are the pods that wait for machines of other fleets.
	elsewhere map[string]bool
	// Queued says that a batch pod waits that is going to run on a machine of this fleet, or
	// on a node that is there.
	Queued bool
	// Learned is what the lessons have learned, for people.
	Learned []string
	// Release are empty machines to release, Drains others to empty.
	Release []cluster.Release
	Drains  []cluster.Drain
	// Exchange are machines to buy in the place of others; nil for none.
	Exchange *cluster.Exchange
	// Terms are what the machines that are bought are expected to cost until they are empty
	// again: one of each machine of Plan, then of Exchange, in their order. Releases has what
	// was compared for each of Release.
	Terms    []Terms
	Releases []ReleaseTerms
	// Kept are under-used and empty nodes that stay, and why.
	Kept []cluster.Stay
	// Wake is after what time to decide again even if nothing happens; 0 means not.
	Wake time.Duration
}

// Fleet decides for a NodeFleet.
//
// Purchases are for the pods that are going to find no room until a machine bought
// now would be ready: those of a forecast in which batch pods end when they are expected
// to and machines on order come (HTAS, algorithm 4, takes nodes of time bin 0 off;
// the forecast also knows which pod goes where). Nominated pods are not bought for
// again, even if the forecast packs them worse than the plan that bought for them. Pods whose place depends on that of
// others are left out of the forecast; the plan puts them where there is room before
// anything is bought for them.
//
// Where the options allow for it, pods wait for longer, for room that comes free, if that is
// cheaper (see [Deferral]).
//
// Empty machines are released at the end of what is paid, unless they are going to be used
// soon (see release). While nothing is bought, under-used ones are emptied as mover says,
// which must have seen every round, and sets of machines exchanged for cheaper ones if that
// pays (see [moves.Exchange]). Only pods that are going to run here keep machines (see
// waiting): a pod that has no machine anywhere, or waits for one of another fleet, stops
// nothing.
func Fleet(s *cluster.State, o FleetOptions, mover *moves.Planner, now time.Time) FleetDecision {
	var d FleetDecision
	if o.Lessons != nil {
		d.Learned = o.Lessons.Learn(s, now)
	}
	if o.Buy && len(s.Pending) > 0 {
		d.buy(s, o, now)
	}
	holding := *s
	holding.Pending = d.waiting(s, o, now)
	if d.Queued = slices.ContainsFunc(holding.Pending, func(p cluster.Pod) bool { return p.Class == class.Batch }); d.Queued {
		holding.QueueEmpty = 0
	}
	proposed := mover.Plan(now, &holding)
	d.Wake, d.Kept = proposed.Wake, proposed.Kept
	d.giveBack(&holding, o, proposed)
	d.wakeToBuy(s, o)
	d.account(s)
	return d
}

func (d *FleetDecision) buy(s *cluster.State, o FleetOptions, now time.Time) {
	coupled := coupledPods(s)
	alone := *s
	alone.Pending, alone.Recent = nil, nil // pods that only are expected take no room from those that wait
	var asking []planner.Pod
	classes := map[class.Class]bool{}
	ask := func(p *cluster.Pod, late bool) {
		pod := planner.PodOf(p)
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
	d.puzzle(f.atOnce, o.Lessons, now)
	d.elsewhere = f.elsewhere
	d.Asked, d.Served = len(asking), len(s.Pending)-len(asking)
	if len(asking) == 0 {
		return
	}
	flavors := onSale(s.Flavors)
	if o.Exhausted != "" {
		flavors = nil
	}
	request := planner.Request{Pods: asking, Nodes: f.left(classes), Flavors: flavors, Limits: o.Limits, Stop: o.Stop, Options: mixOptions(s)}
	d.Plan = planner.Supercargo(d.postpone(s, &alone, o, f, request))
	d.giveUpLate(late, promised)
	d.assignedElsewhere(s)
	if o.Exhausted == "" {
		d.grow(s, o, asking, flavors, coupled)
		return
	}
	for i := range d.Plan.Unplaceable {
		d.Plan.Unplaceable[i].Reason, d.Plan.Unplaceable[i].Limited = o.Exhausted, true
	}
}

// patience is how long a pod may wait although there is room for it before that is
// worth a word: the scheduler tries again within seconds when room comes free.
const patience = time.Minute

// puzzle notes the pods that have room and do not use it. The lessons, unless nil, have the
// flavors of the fleet's nodes that seem to have room.
func (d *FleetDecision) puzzle(atOnce []placed, lessons *Lessons, now time.Time) {
	d.puzzled = map[string]bool{}
	for _, p := range atOnce {
		if p.pod.Waited >= patience {
			d.puzzled[p.node.Name] = true
			if lessons != nil && !p.node.Kept {
				lessons.Refused(p.pod.Name, p.node.Flavor, p.node.Name, now)
			}
			d.Unexplained = append(d.Unexplained, planner.Unplaceable{Pod: p.pod.Name, Reason: fmt.Sprintf(
				"has waited for %v although node %s seems to have room for it: see what its scheduler says", p.pod.Waited.Round(time.Second), p.node.Name)})
		}
	}
	slices.SortFunc(d.Unexplained, func(a, b planner.Unplaceable) int { return cmp.Compare(a.Pod, b.Pod) })
}

// untilReady is how long until a machine bought now and all machines on order are
// ready.
func untilReady(s *cluster.State) time.Duration {
	until := s.Lag
	for i := range s.Nodes {
		if s.Nodes[i].Phase == cluster.Ordered {
			until = max(until, s.Nodes[i].Due)
		}
	}
	return until
}

// coupledPods returns the demands of pods whose place depends on that of others.
func coupledPods(s *cluster.State) map[*constraint.Pod]bool {
	var all []*constraint.Pod
	seen := map[*constraint.Pod]bool{nil: true}
	add := func(pods []cluster.Pod) {
		for i := range pods {
			if d := pods[i].Demands; !seen[d] {
				seen[d] = true
				all = append(all, d)
			}
		}
	}
	add(s.Pending)
	for i := range s.Nodes {
		add(s.Nodes[i].Pods)
	}
	return constraint.Coupled(all)
}

// onSale are the flavors of which a machine can be bought.
func onSale(flavors []cluster.Flavor) []cluster.Flavor {
	return slices.DeleteFunc(slices.Clone(flavors), func(f cluster.Flavor) bool { return !f.Sells(1) })
}

// giveBack takes of what the mover proposes as much as may go, in a state in which only
// those pods wait that are going to run here.
//
// No node goes on which such a pod has room now: the scheduler may be about to put it there.
// Nothing is moved while there is one at all: it may need the room that moved pods take.
func (d *FleetDecision) giveBack(s *cluster.State, o FleetOptions, proposed cluster.Plan) {
	nodes := make(map[string]*cluster.Node, len(s.Nodes))
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	spare := make(map[string]int, len(o.Spare))
	for flavor, n := range o.Spare {
		spare[flavor] = n
	}
	budget := o.Budget
	may := func(n *cluster.Node) bool {
		if d.bound(n, budget, spare) != "" {
			return false
		}
		budget--
		spare[n.Flavor]--
		return true
	}
	if o.Empty {
		d.release(s, d.unused(s, nodes, proposed.Release), may)
	} else {
		for _, release := range proposed.Release {
			d.stays(release.Node, "it is empty, and spec.consolidation.policy is Never")
		}
	}
	if len(s.Pending) > 0 || len(d.Plan.Machines) > 0 {
		for _, drain := range proposed.Drains {
			d.stays(drain.Node, "pods wait that may need the room that its pods would take")
		}
		return
	}
	for _, drain := range proposed.Drains {
		n := nodes[drain.Node]
		switch wait := paidFor(s, n) - lastCall(s) - drain.Until; {
		case !o.UnderUsed:
			d.stays(drain.Node, "spec.consolidation.policy lets no machine go that has pods")
		case wait >= 0:
			d.wake(wait + 1)
			d.stays(drain.Node, fmt.Sprintf("its pods have room elsewhere, but it is paid for; it is emptied in %v", wait.Round(time.Second)))
		case may(n):
			d.Drains = append(d.Drains, drain)
		default:
			d.stays(drain.Node, d.bound(n, budget, spare))
		}
	}
	if o.UnderUsed && budget > 0 && o.Exhausted == "" && !d.limited() {
		o.Spare = spare // less what is released and drained
		d.exchange(s, o, budget)
	}
}

// bound says why a node may not go, or returns "", if so many more may and so many of each
// flavor.
func (d *FleetDecision) bound(n *cluster.Node, budget int, spare map[string]int) string {
	switch {
	case budget <= 0:
		return "spec.consolidation.maxUnavailable lets no more machines go now"
	case spare[n.Flavor] <= 0:
		return "there must be as many machines of " + n.Flavor + " as there are"
	case d.puzzled[n.Name]:
		return "it seems to have room for a pod that waits"
	}
	return ""
}

// stays notes why a node stays that might go.
func (d *FleetDecision) stays(node, why string) {
	d.Kept = append(d.Kept, cluster.Stay{Node: node, Reason: why})
}

// unused returns the empty nodes that no pod is going to take now.
func (d *FleetDecision) unused(s *cluster.State, nodes map[string]*cluster.Node, proposed []cluster.Release) []*cluster.Node {
	assigned := map[string]bool{}
	for _, a := range d.Plan.Assignments {
		assigned[a.Machine] = assigned[a.Machine] || a.Waits
	}
	var empty []*cluster.Node
	for _, r := range proposed {
		if n := nodes[r.Node]; !assigned[n.Name] && !wanted(n, s.Pending) {
			empty = append(empty, n)
		}
	}
	return empty
}

// left returns the open nodes that take all classes of pods that ask, as they are
// expected to be at the end of a forecast.
func (f *forecast) left(asking map[class.Class]bool) []planner.ExistingNode {
	var nodes []planner.ExistingNode
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.open && takesAll(n.node, asking) {
			nodes = append(nodes, planner.NodeOf(n.node, n.Free, n.pods))
		}
	}
	return nodes
}

// LowerBound returns what any machines of the flavors cost that hold all the pods at
// once, in micro-dollars per hour, however many of each may be bought.
func LowerBound(pods []cluster.Pod, flavors []cluster.Flavor) int64 {
	all := make([]planner.Pod, len(pods))
	for i := range pods {
		all[i] = planner.PodOf(&pods[i])
	}
	kinds := make([]cluster.Flavor, len(flavors))
	for i, f := range flavors {
		kinds[i] = f.Unlimited()
	}
	least, _ := planner.LowerBound(all, kinds)
	return least
}

// Unhoused returns the pods on a node that would find no room on the other ready
// nodes, were they to leave it now together. The node is one of the state.
func Unhoused(s *cluster.State, node string) []planner.Unplaceable {
	var pods []planner.Pod
	var others []planner.ExistingNode
	classes := map[class.Class]bool{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Name == node {
			for j := range n.Pods {
				pods = append(pods, planner.PodOf(&n.Pods[j]))
				classes[n.Pods[j].Class] = true
			}
		}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Name != node && n.Phase == cluster.Ready && takesAll(n, classes) {
			others = append(others, planner.NodeOf(n, n.Free(), len(n.Pods)))
		}
	}
	return planner.Supercargo(planner.Request{Pods: pods, Nodes: others}).Unplaceable
}

// takesAll reports whether a node takes pods of all the classes.
func takesAll(n *cluster.Node, classes map[class.Class]bool) bool {
	return (!classes[class.Batch] || n.Class.Takes(class.Batch)) && (!classes[class.Service] || n.Class.Takes(class.Service))
}
