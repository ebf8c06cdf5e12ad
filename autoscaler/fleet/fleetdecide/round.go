// Package fleetdecide decides which machines a NodeFleet buys, keeps, drains and releases.
//
// Every decision minimizes one number: the dollars that machines are expected to cost until they are empty again. That
// is their price over the start-up time and the time that their pods need, in started billing periods, plus the cost of
// moving pods or of losing their work. autoscaler/purchase chooses what to buy by it, [moves.Planner] and
// [moves.Exchange] choose what to drain, and [Fleet] chooses what to keep.
//
// All functions are pure: the same state and options give the same decision.
package fleetdecide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// Observation is what one fleet observes at one moment.
type Observation struct {
	// State is the cluster. It names the fleet's own machines by their [Machine.Key], and its flavors are those that
	// can be ordered. Of its other fields, Nodes and Pending are used.
	State cluster.State
	// Flavors are all flavors of the fleet, including those that cannot be ordered, ordered by name.
	Flavors []Flavor
	// Machines are all machines of the fleet, including those being released, ordered by name.
	Machines []Machine
	// Quota is what the seller still allows. Plans count only what pods can use of a machine, which is less than what
	// counts against the quota, so orders check it again.
	Quota cluster.Limits
	// Gather is how much longer to wait for more pods before anything is ordered.
	Gather time.Duration
	// Interrupted reports that an earlier round did not finish its writes. Unfinished are the orders that it was about
	// to make.
	Interrupted bool
	Unfinished  []Order
	// Drains are the nodes that the fleet drains, ordered by name.
	Drains []Draining
	// Foreign are nodes that the fleet has cordoned and that no longer belong to any of its machines, ordered by name.
	Foreign []string
	// Unbound are the creation times of the pods that are bound to no node and that the scheduler has not reported
	// unschedulable.
	Unbound []time.Time
	// Misfits are images that pods show not to run on the architecture of their nodes, ordered by pod, on nodes of any
	// owner. Runs are the platforms on which images have run.
	Misfits []cluster.Misfit
	Runs    map[cluster.Platform]bool
}

// Flavor is a flavor of a fleet.
type Flavor struct {
	// Name is unique in the fleet.
	Name string
	// Size is what pods and DaemonSets can use of one machine, which counts against the fleet's limits. Sold is what
	// counts against the seller's quota.
	Size, Sold packing.Size
	// MicroDollarsPerHour is the price of one machine.
	MicroDollarsPerHour int64
	// Min is the minimum number of machines, Want the desired number.
	Min, Want int
	// Blocked is how many of the desired machines are not made before machines that are being deleted are gone.
	Blocked int
	// Ordered is the number of existing and ordered machines, without those being released and the Blocked ones.
	Ordered int
	// Unusable reports that no machine of the flavor can be ordered.
	Unusable bool
	// Kept reports that none of its machines may be released, nor their number be lowered.
	Kept bool
	// JoinTimeout is the maximum time from the order of a machine until its node is ready. Lag is the expected time,
	// and Learned reports whether it was measured on machines of this flavor.
	JoinTimeout, Lag time.Duration
	Learned          bool
	// Failures is the number of back-offs since a machine was last ready. AvoidUntil is the time until which the flavor is
	// not ordered after the last one; zero if it may be ordered.
	Failures   int32
	AvoidUntil time.Time
}

// Machine is a machine of a fleet as its provider knows it, with its node in the cluster. Its Flavor names a flavor of
// the observation.
type Machine struct {
	provider.Machine
	// Key is the name of the machine in the state: that of its node, or a placeholder while OnOrder reports that the
	// machine is on order.
	Key     string
	OnOrder bool
	// Startup is the startup taint that the ready node of the machine still has, or the extended resource that it does not
	// have yet; empty if there is neither.
	Startup string
	// NodeState is its node; nil if there is none, although the provider may know the name of one that is gone.
	NodeState *NodeState
}

// NodeState is the node of a machine.
type NodeState struct {
	Name string
	// Created is the creation time of the node, Changed the time of its last change of readiness, and Ready its
	// readiness.
	Created, Changed time.Time
	Ready            bool
	// Deleted reports that the node is being deleted, Drained that it carries the mark of a drain.
	Deleted, Drained bool
	// Taints are its taints, in the format of [Machine.Startup].
	Taints []string
	// Unhealthy is the condition for which its machine is to be replaced, for people; empty if there is none.
	Unhealthy string
	// Lacks is an extended resource that machines of the flavor should have and that it does not have; empty if there is none.
	Lacks corev1.ResourceName
	// Remains are the pods on the node if it is not ready.
	Remains Remains
	// Notice is what announces that the machine is about to be taken, for people; empty if nothing does.
	Notice string
}

// Remains are the pods on an unready node, without those of DaemonSets.
type Remains struct {
	// Pods is the number of pods.
	Pods int
	// Lost is the first pod, by name, that would be lost with the machine; empty if there is none.
	Lost string
	// After is the time after which nothing is lost any more.
	After time.Duration
}

// Order is a change of the number of machines of a flavor.
type Order struct {
	Flavor   string
	From, To int
}

// Actions are what a fleet must do.
type Actions struct {
	// Joined are machines that have come.
	Joined []Joined
	// Avoid are flavors not to order for a while, because of what was observed on their nodes.
	Avoid []Avoidance
	// Abandoned are machines that did not come. If one of [Actions.Unseen] has a node by now, the caller must neither
	// abandon nor order anything.
	Abandoned []Abandonment
	// Uncordon are nodes to uncordon.
	Uncordon []Uncordoning
	// Orders are machines to buy, ordered by flavor.
	Orders []Order
	// Release are cordoned and empty nodes whose machines are to be released.
	Release []string
	// Cordon are nodes to cordon, after the machines are ordered.
	Cordon []Cordoning
	// Ask are drained nodes whose pods must leave.
	Ask []string

	// Fleet is the decision that explains Orders and Cordon.
	Fleet FleetDecision
	// Events are events for people.
	Events []Event
	// Wake is the time after which to decide again even if nothing happens.
	Wake time.Duration
}

// Joined is a machine that has come.
type Joined struct {
	Flavor string
	// Took is the time from the order of the machine until it accepted pods.
	Took time.Duration
}

// Avoidance is the back-off of a flavor: its end, and the number of back-offs since one of its machines was last ready, with
// this one.
type Avoidance struct {
	Flavor   string
	Until    time.Time
	Failures int32
}

// Cordoning is a node to cordon.
type Cordoning struct {
	Node string
	// Until is the time until its last pod is expected to have left; 0 if it has none.
	Until time.Duration
}

// Uncordoning is a node to uncordon.
type Uncordoning struct {
	Node string
	// Cancel means that the requests to move its pods are to be cancelled.
	Cancel bool
	// Done is recorded once the node is uncordoned; nil for none.
	Done *Event
}

// Event is an event for people.
type Event struct {
	Warning                 bool
	Reason, Action, Message string
}

// Round decides what a fleet does now: which machines to abandon, order and release, which nodes to cordon, drain and
// uncordon, and when to decide again. It changes only the memory, and that only by what was observed. The methods of
// the memory record what was carried out.
//
// All decisions are made at once, so that none waits for the execution of another: orders count on nodes that are
// uncordoned in the same round, and not on machines that are abandoned in it. A flavor that is ordered is not released
// in the same round.
//
// With [Config.Retire], it only drains and releases: see retire.
//
// The same arguments give the same actions, unless Stop differs.
func Round(o *Observation, m *Memory, c Config, now time.Time) Actions {
	r := newPlanning(o, m, c, now)
	if c.Retire {
		r.retire()
		return r.actions
	}
	r.settle()
	r.fitImages()
	r.learn()
	r.learnSuccessors()
	r.abandon()
	if !c.SkipDrains {
		r.drains()
		r.respectNotices()
	}
	r.plan()
	return r.actions
}

// planning is one call of [Round].
type planning struct {
	o   *Observation
	m   *Memory
	c   Config
	now time.Time

	state       cluster.State // a copy
	flavors     map[string]*Flavor
	all         []*Machine          // of known flavors
	machines    map[string]*Machine // those that are not leaving, by key
	drained     []*Draining         // those of known machines
	avoided     map[string]Avoidance
	made        map[string]int // number of machines by flavor, without leaving ones
	uncordoned  map[string]bool
	gone, empty map[string]int  // number of machines by flavor that this round abandons, and releases
	releasing   map[string]bool // flavors
	nominations *nominations
	// lacking are the machines that flavors lack of their minimum and that are ordered in this round, by flavor.
	lacking map[string]int
	actions Actions
}

func newPlanning(o *Observation, m *Memory, c Config, now time.Time) *planning {
	r := &planning{
		o: o, m: m, c: c, now: now, state: o.State,
		flavors: make(map[string]*Flavor, len(o.Flavors)), machines: make(map[string]*Machine, len(o.Machines)),
		made: map[string]int{}, avoided: map[string]Avoidance{}, uncordoned: map[string]bool{}, gone: map[string]int{}, empty: map[string]int{}, releasing: map[string]bool{},
		nominations: &m.nominations, actions: Actions{Wake: c.Interval},
	}
	r.state.Nodes, r.state.Pending, r.state.Flavors = slices.Clone(o.State.Nodes), slices.Clone(o.State.Pending), slices.Clone(o.State.Flavors)
	lag := c.ExpectedLag
	for i := range o.Flavors {
		f := &o.Flavors[i]
		r.flavors[f.Name] = f
		if f.AvoidUntil.After(now) || f.Failures > 0 {
			// A clock that was ahead must not prolong the back-off.
			r.avoided[f.Name] = Avoidance{f.Name, earlier(f.AvoidUntil, now.Add(c.BackOff<<mostDoublings)), f.Failures}
		}
	}
	for i := range o.Machines {
		m := &o.Machines[i]
		if r.flavors[m.Flavor] == nil {
			continue
		}
		r.all = append(r.all, m)
		if !m.Leaving {
			r.machines[m.Key] = m
			r.made[m.Flavor]++
		}
	}
	for i := range o.Drains {
		if r.machines[o.Drains[i].Node] != nil {
			r.drained = append(r.drained, &o.Drains[i])
		}
	}
	r.raiseLags()
	for _, f := range r.flavors {
		lag = max(lag, f.Lag)
	}
	m.nominations.last = NominatedFor(lag)
	return r
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// wake decides again after at most that time.
func (r *planning) wake(d time.Duration) { r.actions.Wake = max(0, min(r.actions.Wake, d)) }

func (r *planning) recordEvent(e Event) { r.actions.Events = append(r.actions.Events, e) }

// avoids reports whether a flavor must not be ordered now.
func (r *planning) avoids(flavor string) bool { return r.avoided[flavor].Until.After(r.now) }

// avoid starts or extends the back-off of a flavor of which a machine did not come, and returns it.
func (r *planning) avoid(flavor string) Avoidance {
	a := r.avoided[flavor]
	a.Flavor = flavor
	if !r.avoids(flavor) { // else these were ordered earlier, and only found to be late after others
		a.Failures++
	}
	a.Until = r.now.Add(r.c.BackOff << min(max(a.Failures-1, 0), mostDoublings))
	r.avoided[flavor] = a
	return a
}

// settle continues after a round that did not finish, because the process died or a write failed. What that round
// ordered is observed, and is for the pods for which it was ordered. The rest is decided again: pods are still pending,
// cordoned nodes still cordoned, late machines still late. A node to be drained may have become ready meanwhile.
func (r *planning) settle() {
	if !r.o.Interrupted {
		return
	}
	asked, ordered := false, false
	for _, o := range r.o.Unfinished {
		if o.To <= o.From {
			continue
		}
		asked = true
		if f := r.flavors[o.Flavor]; f != nil && f.Want >= o.To {
			r.m.nominations.add(o.Flavor, r.now)
			ordered = true
		}
	}
	if asked && !ordered {
		r.m.nominations.before = time.Time{} // nothing was ordered for any pod
	}
}

// learn records which machines have come since the last round.
func (r *planning) learn() {
	onOrder, startup := map[string]bool{}, map[string]string{}
	for _, m := range r.all {
		if m.Leaving {
			continue
		}
		if m.Startup != "" {
			startup[m.Name] = m.Startup
		}
		if m.OnOrder {
			onOrder[m.Name] = true
			continue
		}
		if m.NodeState == nil || !m.NodeState.Ready || !r.m.onOrder[m.Name] {
			continue
		}
		took := m.NodeState.Changed.Sub(m.Ordered)
		if lacked, had := r.m.startup[m.Name]; had {
			if r.keepsTaint(m, lacked) || r.staysWithout(m, lacked) {
				continue // it did not come in time
			}
			took = r.now.Sub(m.Ordered) // it accepted no pods before
		}
		delete(r.avoided, m.Flavor)
		r.actions.Joined = append(r.actions.Joined, Joined{m.Flavor, took})
	}
	r.m.onOrder, r.m.startup = onOrder, startup
	r.learnEnds()
	r.m.forget(r.o)
}

// keepsTaint reports whether a node has kept a startup taint beyond the join timeout, so that it counts as permanent
// for machines of its flavor, and emits an event. If the node has received no pod, the flavor is avoided like one whose
// machines do not come: once the node is gone, nothing shows that the next one will have the taint too.
func (r *planning) keepsTaint(m *Machine, taint string) bool {
	if !slices.Contains(m.NodeState.Taints, taint) {
		return false
	}
	r.recordEvent(Event{true, v1alpha1.FleetReasonTaintRemains, v1alpha1.ActionWait, fmt.Sprintf(
		"node %s of flavor %s still has taint %s %v after its machine was ordered, so the taint counts as permanent: check the component that should remove it, or add it to the taints of the flavor",
		m.Key, m.Flavor, taint, r.flavors[m.Flavor].JoinTimeout)})
	r.avoidUnused(m)
	return true
}

// staysWithout reports whether a node still lacks an extended resource after the join timeout, and emits an event. The flavor
// is avoided as by [planning.keepsTaint]: no pod that requests the resource could run on its machines.
func (r *planning) staysWithout(m *Machine, resource string) bool {
	if m.NodeState.Lacks == "" || string(m.NodeState.Lacks) != resource {
		return false
	}
	r.recordEvent(Event{true, v1alpha1.FleetReasonResourceMissing, v1alpha1.ActionWait, fmt.Sprintf(
		"node %s of flavor %s still has no %s %v after its machine was ordered: check the driver and the device plugin that publish it, or correct what the flavor states",
		m.Key, m.Flavor, resource, r.flavors[m.Flavor].JoinTimeout)})
	r.avoidUnused(m)
	return true
}

// avoidUnused avoids the flavor of a machine on whose node no pod runs.
func (r *planning) avoidUnused(m *Machine) {
	used := func(n cluster.Node) bool { return n.Name == m.Key && len(n.Pods) > 0 }
	if !slices.ContainsFunc(r.state.Nodes, used) {
		r.actions.Avoid = append(r.actions.Avoid, r.avoid(m.Flavor))
		r.m.nominations.end(m.Flavor)
	}
}

// plan decides what to order, and which other nodes to cordon.
func (r *planning) plan() {
	s := &r.state
	r.complete(s)
	r.nominate()
	if r.o.Gather > 0 {
		r.wake(r.o.Gather)
	}
	left, quota, unmet := r.reachMinimum(s)
	c := r.c
	c.Limits = left.And(quota)
	replace := r.replacements()
	over := withhold(s, r.flavors, left, quota)
	d := Fleet(s, FleetOptions{
		Config: c, Buy: r.o.Gather <= 0, Exhausted: exhausted(left, quota), Budget: r.budget(), Allowed: r.allowed(), Replace: replace, Spare: r.spare(), Least: r.least(),
		Orders: r.m.nominations.times, Decided: r.decidedFor(), Lessons: &r.m.lessons,
	}, r.m.mover, r.now)
	r.limit(&d, over)
	d.Limit = cmp.Or(d.Limit, unmet)
	r.actions.Fleet = d
	if n := len(d.Learned); n > 0 {
		text := d.Learned[0]
		if n > 1 {
			text += fmt.Sprintf(" (and %d more)", n-1)
		}
		r.recordEvent(Event{true, v1alpha1.FleetReasonPodDoesNotFit, v1alpha1.ActionPlan, text})
	}
	if d.Queued {
		r.m.busy = r.now
	}
	if d.Wake > 0 {
		r.wake(d.Wake)
	}
	r.order()
	r.cordon()
	r.release()
}

// decidedFor returns the time since the first decision about each pending pod, and records the pods that are decided
// about for the first time. While pods are gathered, there are no decisions about new ones.
func (r *planning) decidedFor() map[string]time.Duration {
	since, elapsed := make(map[string]time.Time, len(r.state.Pending)), make(map[string]time.Duration, len(r.state.Pending))
	for i := range r.state.Pending {
		name := r.state.Pending[i].Name
		first, known := r.m.decided[name]
		if !known && r.o.Gather > 0 {
			continue
		}
		if !known || first.After(r.now) { // or the clock was ahead
			first = r.now
		}
		since[name], elapsed[name] = first, r.now.Sub(first)
	}
	r.m.decided = since
	return elapsed
}

// complete adds to the state what follows from the configuration and the memory.
func (r *planning) complete(s *cluster.State) {
	s.Flavors = slices.DeleteFunc(s.Flavors, func(f cluster.Flavor) bool {
		if !r.avoids(f.Name) {
			return r.flavors[f.Name] == nil
		}
		r.wake(r.avoided[f.Name].Until.Sub(r.now))
		return true
	})
	s.ScalingInterval, s.SchedulingInterval = r.c.Interval, r.c.Interval
	s.BillingPeriod = r.c.BillingPeriod
	s.Lag = r.purchaseLag(s)
	s.Release = sum(r.c.ReleaseDelay, ExpectedLag(r.m.ends, 0))
	s.Migration = cluster.DefaultMigration
	s.Scaling = true
	s.MaxNodes = math.MaxInt32 // limits bound the number
	s.QueueEmpty = max(0, r.now.Sub(r.m.busy))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if r.keeps(n) {
			n.Kept, n.KeptFor = true, cmp.Or(n.KeptFor, "it could not be drained and is in back-off: "+r.m.kept[n.Name].why)
		}
		if r.uncordoned[n.Name] && !r.m.stillCordoned[n.Name] {
			open(n)
		}
	}
}

// open makes a node of the state accept pods again.
func open(n *cluster.Node) {
	n.Phase, n.Waits, n.Until = cluster.Ready, false, 0
	n.Host = constraint.Uncordoned(n.Host)
}

// cordon decides which nodes to cordon. Those of an exchange are cordoned once their replacements are ordered; their
// pods stay until there is room for all of them.
func (r *planning) cordon() {
	d := &r.actions.Fleet
	before := len(r.actions.Cordon)
	for _, release := range d.Release {
		r.actions.Cordon = append(r.actions.Cordon, Cordoning{Node: release.Node})
	}
	for _, drain := range d.Drains {
		r.actions.Cordon = append(r.actions.Cordon, Cordoning{drain.Node, drain.Until})
	}
	if e := d.Exchange; e != nil {
		for _, node := range e.Nodes {
			r.actions.Cordon = append(r.actions.Cordon, Cordoning{node, e.Until})
		}
	}
	if len(r.actions.Cordon) > before {
		r.wake(r.c.ReleaseDelay)
	}
}

// release leaves out machines of flavors whose number changes otherwise in this round: they are released in the next.
func (r *planning) release() {
	changes := map[string]bool{}
	for _, o := range r.actions.Orders {
		changes[o.Flavor] = true
	}
	for i := range r.actions.Abandoned {
		a := &r.actions.Abandoned[i]
		if changes[a.Flavor] {
			a.Release = nil
		}
		changes[a.Flavor] = changes[a.Flavor] || a.Fewer > 0
	}
	before := len(r.actions.Release)
	r.actions.Release = slices.DeleteFunc(r.actions.Release, func(node string) bool { return changes[r.machines[node].Flavor] })
	if len(r.actions.Release) < before {
		r.wake(time.Second)
	}
}
