package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/moves"
	"supercargo.dev/supercargo/internal/scenario"
	"supercargo.dev/supercargo/internal/sim"
)

// fleet is a NodeFleet in a simulation: the decision is that of the autoscaler,
// [decide.Fleet], with the fields of an installed NodeFleet. What is here only observes and
// acts, as the reconciler does against a cluster.
type fleet struct {
	spec  *v1alpha1.NodeFleetSpec
	mover *moves.Planner
	// ways is how batch pods may leave a node that declare nothing. A cluster in which
	// each is annotated with supercargo.dev/migration: checkpoint has [cluster.Migrate].
	ways cluster.Ways
	// most is how many machines there may be.
	most int
	// busy is when a batch pod last waited for this fleet.
	busy time.Time
	// nominated are the pods for which machines on their way were bought, until a time.
	nominated map[string]bool
	until     time.Time
	// exchanged are the machines that are closed until those in their place are ready, and
	// since when.
	exchanged map[string]time.Time
}

// binding is how long the scheduler has to bind pods to machines that have come.
const binding = 10 * time.Second

// supercargo is what an installation does: one NodeFleet for all pods, of which nothing is
// stated but what machines cost.
func supercargo(sc *scenario.Scenario) sim.Controller {
	return newFleet(sc, defaultFleet(), cluster.WaysOf(cluster.Migrate))
}

// SupercargoWith is the policy supercargo with a fleet that empties under-used machines, and
// pods that leave these in those ways alone where they declare nothing.
func SupercargoWith(ways cluster.Ways) sim.Policy {
	return fleetPolicy(func(sc *scenario.Scenario) sim.Controller {
		spec := defaultFleet()
		spec.Consolidation.Policy = v1alpha1.ConsolidateWhenUnderUsed
		return newFleet(sc, spec, ways)
	})
}

// FleetWith is the policy supercargo with a NodeFleet that is changed.
func FleetWith(change func(*v1alpha1.NodeFleetSpec)) sim.Policy {
	return fleetPolicy(func(sc *scenario.Scenario) sim.Controller {
		spec := defaultFleet()
		change(spec)
		return newFleet(sc, spec, cluster.WaysOf(cluster.Migrate))
	})
}

func fleetPolicy(c func(*scenario.Scenario) sim.Controller) sim.Policy {
	p, err := ByName("supercargo")
	if err != nil {
		panic(err) // it is in the list
	}
	p.Controller = c
	return p
}

// newFleet returns a fleet in a scenario, which says how machines are billed.
func newFleet(sc *scenario.Scenario, spec *v1alpha1.NodeFleetSpec, ways cluster.Ways) *fleet {
	return &fleet{
		spec: spec, mover: moves.NewPlanner(decide.MovesConfig(&spec.Consolidation)), ways: ways, most: int(sc.MaxNodes),
		nominated: map[string]bool{}, exchanged: map[string]time.Time{},
	}
}

// Decide implements sim.Controller.
func (f *fleet) Decide(now time.Time, seen *cluster.State) cluster.Plan {
	s := f.observe(now, seen)
	wait := f.gathering(s)
	decision := decide.Fleet(s, f.options(s, seen.MaxNodes, wait == 0), f.mover, now)
	if decision.Queued {
		f.busy = now
	}
	plan := f.act(now, s, &decision)
	plan.Wake = soonest(f.spec.Scaling.Interval.Duration, wait, decision.Wake, plan.Wake)
	return plan
}

// soonest returns the least of some times above 0.
func soonest(all ...time.Duration) time.Duration {
	var least time.Duration
	for _, d := range all {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

// observe is the cluster as the fleet sees it.
func (f *fleet) observe(now time.Time, seen *cluster.State) *cluster.State {
	s := *seen
	interval := f.spec.Scaling.Interval.Duration
	s.ScalingInterval, s.SchedulingInterval, s.Scaling = interval, interval, true
	s.MaxNodes = math.MaxInt32 // the limits of the options say how many
	s.QueueEmpty = now.Sub(f.busy)
	s.Recent, s.Observed = nil, 0 // a fleet does not watch what comes
	s.Nodes = slices.Clone(seen.Nodes)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Waits, n.Until = false, 0 // the fleet opens closed nodes itself
		n.Pods = slices.Clone(n.Pods)
		for j := range n.Pods {
			f.observePod(&n.Pods[j])
		}
	}
	f.nominate(now, &s)
	return &s
}

// observePod completes what the fleet knows of a pod on a node.
func (f *fleet) observePod(p *cluster.Pod) {
	if p.Class == class.Service {
		return
	}
	if p.Ways == 0 {
		p.Ways = f.ways
	}
	if p.Runtime == 0 {
		p.Runtime = max(time.Second, p.Overdue) // the longer it is overdue, the longer it may go on
	}
}

// nominate marks the pods that wait for a machine that is on its way.
func (f *fleet) nominate(now time.Time, s *cluster.State) {
	inFlight := slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return n.Phase == cluster.Ordered })
	if end := now.Add(binding); !inFlight && end.Before(f.until) {
		f.until = end
	}
	if !now.Before(f.until) {
		clear(f.nominated)
		return
	}
	s.Pending = slices.Clone(s.Pending)
	for i := range s.Pending {
		s.Pending[i].Nominated = f.nominated[s.Pending[i].Name]
	}
}

// gathering is how long to wait for more pods before machines are bought.
func (f *fleet) gathering(s *cluster.State) time.Duration {
	if len(s.Pending) == 0 {
		return 0
	}
	last, first := s.Pending[0].Waited, s.Pending[0].Waited
	for i := range s.Pending {
		last, first = min(last, s.Pending[i].Waited), max(first, s.Pending[i].Waited)
	}
	return max(0, min(f.spec.Scaling.BatchIdle.Duration-last, f.spec.Scaling.BatchMax.Duration-first))
}

// options are what the fleet may do. left is how many machines there may be, less those
// that have been given back and have not gone yet.
func (f *fleet) options(s *cluster.State, left int, buy bool) decide.FleetOptions {
	c := &f.spec.Consolidation
	o := decide.FleetOptions{
		Buy: buy, Limits: planner.Limits{Machines: left - len(s.Nodes)}, Class: class.Any,
		Horizon: decide.Horizon(c), Residence: decide.Residence(c), PodResidence: decide.PodResidence(c),
		Empty: c.Policy != v1alpha1.ConsolidateNever, UnderUsed: c.Policy == v1alpha1.ConsolidateWhenUnderUsed,
		Budget: unavailable(c.MaxUnavailable, len(s.Nodes)) - (f.most - left), Spare: map[string]int{},
	}
	for i := range s.Nodes {
		o.Spare[s.Nodes[i].Flavor]++
		if s.Nodes[i].Phase == cluster.Leaving {
			o.Spare[s.Nodes[i].Flavor]--
			o.Budget--
		}
	}
	if o.Limits.Machines <= 0 {
		o.Limits.Machines, o.Exhausted = -1, "the limit spec.limits.machines is reached"
	}
	return o
}

// unavailable is how many of the machines may be on their way out.
func unavailable(text string, machines int) int {
	limit := intstr.Parse(text)
	n, err := intstr.GetScaledValueFromIntOrPercent(&limit, machines, true)
	if err != nil {
		return 0
	}
	return n
}

// act carries a decision out.
func (f *fleet) act(now time.Time, s *cluster.State, d *decide.FleetDecision) cluster.Plan {
	plan := cluster.Plan{Release: d.Release, Drains: d.Drains}
	for i := range d.Plan.Machines {
		m := &d.Plan.Machines[i]
		plan.Buy = append(plan.Buy, cluster.Purchase{Flavor: m.Flavor, Class: class.Any, Pods: m.Pods, Reason: m.Reason})
		for _, pod := range m.Pods {
			f.nominated[pod] = true
		}
		f.until = now.Add(2*s.Lag + binding)
	}
	switch {
	case len(f.exchanged) == 0:
	case len(d.Drains)+len(d.Release) > 0 || d.Exchange != nil: // which take room and machines that s still has
		plan.Wake = time.Second
	default:
		f.proceed(now, s, &plan)
	}
	if d.Exchange != nil {
		f.exchange(now, d.Exchange, &plan)
	}
	return plan
}

// exchange orders machines and closes those in whose place they are to come.
func (f *fleet) exchange(now time.Time, x *cluster.Exchange, plan *cluster.Plan) {
	plan.Buy = append(plan.Buy, x.Buy...)
	for _, node := range x.Nodes {
		f.exchanged[node] = now
		plan.Drains = append(plan.Drains, cluster.Drain{Node: node, Method: cluster.Wait, Until: x.Until, Reason: x.Reason})
	}
}

// proceed moves the pods of machines that are closed once there is room for all of them,
// and opens the machines whose pods have not left in time.
func (f *fleet) proceed(now time.Time, s *cluster.State, plan *cluster.Plan) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		since, is := f.exchanged[n.Name]
		if !is || n.Phase != cluster.Leaving || n.Incoming > 0 {
			continue
		}
		ordered := slices.ContainsFunc(s.Nodes, func(other cluster.Node) bool { return other.Phase == cluster.Ordered })
		moved, ok := f.rehouse(s, n)
		switch {
		case !ordered && ok:
			plan.Transfers = append(plan.Transfers, moved...)
			delete(f.exchanged, n.Name)
		case !ordered && now.Sub(since) > f.spec.Consolidation.DrainTimeout.Duration:
			plan.Reopen = append(plan.Reopen, cluster.Stay{Node: n.Name, Reason: fmt.Sprintf("%d pods have not left within %v", len(n.Pods), f.spec.Consolidation.DrainTimeout.Duration)})
			delete(f.exchanged, n.Name)
		}
	}
}

// rehouse gives all pods of a machine a place on others, in s as well; not if one has none.
// Each takes the tightest room.
func (f *fleet) rehouse(s *cluster.State, n *cluster.Node) (all []cluster.Transfer, ok bool) {
	pods := slices.Clone(n.Pods)
	slices.SortFunc(pods, cluster.Scheduled)
	taken := map[int][]cluster.Pod{}
	for _, p := range pods {
		best, free := -1, int64(0)
		for i := range s.Nodes {
			to := s.Nodes[i]
			to.Pods = slices.Concat(to.Pods, taken[i])
			room := to.Free()
			if to.Phase == cluster.Ready && to.Suits(&p) && p.Size.Fits(room) && (to.MaxPods == 0 || int64(len(to.Pods)) < to.MaxPods) && (best < 0 || room.MemoryBytes < free) {
				best, free = i, room.MemoryBytes
			}
		}
		if best < 0 || p.Fixed {
			return nil, false
		}
		taken[best] = append(taken[best], p)
		method := cluster.Evict
		if p.Ways.Has(cluster.Migrate) {
			method = cluster.Migrate
		}
		all = append(all, cluster.Transfer{Pod: p.Name, From: n.Name, To: s.Nodes[best].Name, Method: method, Reason: "its machine is exchanged for a cheaper one"})
	}
	for i, pods := range taken {
		s.Nodes[i].Pods = slices.Concat(s.Nodes[i].Pods, pods)
	}
	return all, true
}
