package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// fleet is a NodeFleet in a simulation: [fleetdecide.Round] decides each round, as in the autoscaler,
// with the fields of an installed NodeFleet. The code here only observes and acts, as the
// reconciler does in a cluster.
type fleet struct {
	spec   *v1alpha1.NodeFleetSpec
	memory *fleetdecide.Memory
	// ways are the ways in which batch pods that declare none may leave a node. [cluster.Migrate]
	// corresponds to a cluster in which each is annotated with supercargo.dev/migration:
	// checkpoint.
	ways cluster.Ways
	// most is the maximum number of machines.
	most int
	// machines are the machines of the fleet that are not released, by name. released are those
	// that are being released, oldest first.
	machines map[string]*bought
	released []fleetdecide.Machine
	// marks are the cordoned nodes, by name.
	marks map[string]drain.Mark
	// decided is the time of the last purchase decision. Pods that were pending then are not
	// gathered again.
	decided time.Time
	// flavors is the flavor status of the fleet, by name.
	flavors map[string]*flavorStatus
}

// bought has the times when a machine was ordered and observed as ready.
type bought struct{ ordered, ready time.Time }

// flavorStatus is what the fleet has learned about a flavor.
type flavorStatus struct {
	lag *v1alpha1.LearnedTime
	fleetdecide.Avoidance
}

// supercargo is a default installation: one NodeFleet for all pods, which sets only the prices of
// machines.
func supercargo(sc *scenario.Scenario) sim.Controller {
	return newFleet(sc, defaultFleet(), cluster.WaysOf(cluster.Migrate))
}

// SupercargoWith is the policy supercargo with a fleet that empties under-used machines. Batch pods
// that declare nothing leave them only in the given ways. Services stay.
func SupercargoWith(ways cluster.Ways) sim.Policy {
	return fleetPolicy(func(sc *scenario.Scenario) sim.Controller {
		spec := defaultFleet()
		spec.Consolidation.Policy = v1alpha1.ConsolidateWhenUnderUsed
		spec.Consolidation.EvictServices = v1alpha1.EvictServicesNever
		return newFleet(sc, spec, ways)
	})
}

// FleetWith is the policy supercargo with a modified NodeFleet.
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

// newFleet returns a fleet in a scenario, which sets the billing, the maximum number of machines
// and the lags. A long lag raises the join timeout, as the owner of a fleet would do.
func newFleet(sc *scenario.Scenario, spec *v1alpha1.NodeFleetSpec, ways cluster.Ways) *fleet {
	spec.Pricing.BillingPeriod.Duration = sc.BillingPeriod
	spec.Scaling.JoinTimeout.Duration = max(spec.Scaling.JoinTimeout.Duration, 2*sc.AcquisitionLag.Mean)
	c := fleetdecide.ConfigOf(spec)
	return &fleet{
		spec: spec, ways: ways, most: int(sc.MaxNodes),
		memory:   fleetdecide.NewMemory(c.Moves(), c.BackOff, sim.Epoch),
		machines: map[string]*bought{}, marks: map[string]drain.Mark{}, flavors: map[string]*flavorStatus{},
	}
}

// settling is how long events are gathered before a round begins.
const settling = 200 * time.Millisecond

// Decide implements sim.Controller.
func (f *fleet) Decide(now time.Time, seen *cluster.State) cluster.Plan {
	f.recognise(now, seen)
	o := f.observe(now, seen)
	c := fleetdecide.ConfigOf(f.spec)
	c.Act, c.Limits.Machines = true, new(int64(f.most))
	actions := fleetdecide.Round(o, f.memory, c, now)
	f.learn(&actions)
	plan := f.act(now, &o.State, &actions)
	plan.Wake = max(plan.Wake, settling)
	return plan
}

// recognise records the existing machines and their times.
func (f *fleet) recognise(now time.Time, seen *cluster.State) {
	there := make(map[string]bool, len(seen.Nodes))
	for i := range seen.Nodes {
		n := &seen.Nodes[i]
		there[n.Name] = true
		m := f.machines[n.Name]
		if m == nil {
			m = &bought{ordered: now}
			if n.Phase == cluster.Ordered {
				m.ordered = now.Add(n.Due - seen.Lag)
			}
			f.machines[n.Name] = m
		}
		if n.Phase != cluster.Ordered && m.ready.IsZero() {
			m.ready = now
		}
	}
	for name := range f.machines {
		if !there[name] {
			delete(f.machines, name)
			delete(f.marks, name)
		}
	}
	gone := len(f.released) - (f.most - seen.MaxNodes)
	f.released = slices.Delete(f.released, 0, max(0, gone))
}

// observe returns the cluster as the fleet sees it.
func (f *fleet) observe(now time.Time, seen *cluster.State) *fleetdecide.Observation {
	o := &fleetdecide.Observation{State: *seen, Machines: slices.Clone(f.released)}
	s := &o.State
	s.Nodes = slices.Clone(seen.Nodes)
	ordered := map[string]int{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		ordered[n.Flavor]++
		o.Machines = append(o.Machines, f.observeMachine(now, n))
	}
	for i := range s.Flavors {
		o.Flavors = append(o.Flavors, f.flavor(&s.Flavors[i], ordered[s.Flavors[i].Name]))
	}
	slices.SortFunc(o.Machines, func(a, b fleetdecide.Machine) int { return cmp.Compare(a.Name, b.Name) })
	o.Drains = f.draining(now, s.Nodes)
	var since []time.Time
	for i := range s.Pending {
		if at := now.Add(-s.Pending[i].Waited); at.After(f.decided) {
			since = append(since, at)
		}
	}
	o.Gather = fleetdecide.Gather(now, since, f.spec.Scaling.BatchIdle.Duration, f.spec.Scaling.BatchMax.Duration)
	if o.Gather == 0 {
		f.decided = now
	}
	return o
}

func (f *fleet) lag(flavor string) time.Duration {
	l := f.flavors[flavor]
	if l == nil {
		l = &flavorStatus{}
	}
	return fleetdecide.ExpectedLag(l.lag, f.spec.Scaling.ExpectedLag.Duration)
}

// flavor returns what the fleet knows about a flavor with the given number of machines.
func (f *fleet) flavor(of *cluster.Flavor, machines int) fleetdecide.Flavor {
	flavor := fleetdecide.Flavor{
		Name: of.Name, Size: of.Size, Sold: of.Size, MicroDollarsPerHour: of.MicroDollarsPerHour, Want: machines, Ordered: machines,
		JoinTimeout: f.spec.Scaling.JoinTimeout.Duration, Lag: f.lag(of.Name),
	}
	if l := f.flavors[of.Name]; l != nil {
		flavor.Failures, flavor.AvoidUntil, flavor.Learned = l.Failures, l.Until, l.lag != nil
	}
	return flavor
}

// observeMachine sets what the fleet knows about a machine in the state, and returns the machine.
func (f *fleet) observeMachine(now time.Time, n *cluster.Node) fleetdecide.Machine {
	b := f.machines[n.Name]
	m := fleetdecide.Machine{Machine: provider.Machine{Name: n.Name, Flavor: n.Flavor, Ordered: b.ordered}, Key: n.Name}
	n.Age = now.Sub(b.ordered)
	n.Waits, n.Until = false, 0 // the fleet uncordons nodes itself
	if m.OnOrder = n.Phase == cluster.Ordered; m.OnOrder {
		n.Due = max(0, f.lag(n.Flavor)-n.Age)
		if n.Age >= f.spec.Scaling.JoinTimeout.Duration {
			n.Phase = cluster.Leaving // no pod may wait for it any longer
		}
		return m
	}
	_, drained := f.marks[n.Name]
	m.Node, m.NodeState = n.Name, &fleetdecide.NodeState{Name: n.Name, Created: b.ready, Changed: b.ready, Ready: true, Drained: drained}
	n.Pods = slices.Clone(n.Pods)
	for i := range n.Pods {
		f.observePod(&n.Pods[i])
	}
	return m
}

// observePod sets what the fleet knows about a pod on a node.
func (f *fleet) observePod(p *cluster.Pod) {
	if p.Class == class.Service {
		f.observeService(p)
		return
	}
	if p.Ways == 0 {
		p.Ways = f.ways
	}
	if p.Runtime == 0 {
		p.Runtime = max(time.Second, p.Overdue) // the longer it is overdue, the longer it may continue
	}
}

// observeService sets how a pod of a service may leave. All pods of a scenario have a controller
// and no local storage. A pod that declares nothing may be evicted unless the fleet requires
// services to opt in.
func (f *fleet) observeService(p *cluster.Pod) {
	switch which := f.spec.Consolidation.EvictServices; {
	case p.Fixed:
	case which == v1alpha1.EvictServicesNever, which == v1alpha1.EvictServicesOptIn && p.Ways == 0:
		p.Fixed, p.Held = true, "spec.consolidation.evictServices of the NodeFleet is "+string(which)
	case p.Ways == 0:
		p.Ways = cluster.WaysOf(cluster.Evict)
	}
}

// draining returns the cordoned nodes, by name, with their pods.
func (f *fleet) draining(now time.Time, nodes []cluster.Node) []fleetdecide.Draining {
	var all []fleetdecide.Draining
	moving := inMotion(nodes)
	for i := range nodes {
		n := &nodes[i]
		mark, is := f.marks[n.Name]
		if !is {
			continue
		}
		d := fleetdecide.Draining{Node: n.Name, Since: mark.Since, Until: mark.Until, Joined: true}
		for j := range n.Pods {
			p := &n.Pods[j]
			leaving := fleetdecide.LeavingPod{Name: p.Name, Class: p.Class, Resided: p.Resided}
			if step := mark.Next(leaver(now, p, moving[p.Name]), now); step.Do == drain.GiveUp {
				leaving.Stays = step.Why
			}
			d.Pods = append(d.Pods, leaving)
		}
		all = append(all, d)
	}
	return all
}

// inMotion returns the pods that are being moved: these are on both nodes.
func inMotion(nodes []cluster.Node) map[string]bool {
	seen, moving := map[string]bool{}, map[string]bool{}
	for i := range nodes {
		for j := range nodes[i].Pods {
			name := nodes[i].Pods[j].Name
			moving[name] = seen[name]
			seen[name] = true
		}
	}
	return moving
}

// leaver returns what is known about a pod that must leave its node.
func leaver(now time.Time, p *cluster.Pod, moving bool) drain.Leaver {
	l := drain.Leaver{Ways: p.Ways, Moving: moving}
	if p.Fixed {
		l.Ways = 0
	}
	if p.Class == class.Batch {
		l.Ends = now.Add(p.Runtime)
		if p.Overdue > 0 {
			l.Ends = now.Add(-p.Overdue)
		}
	}
	return l
}

// learn records what the fleet's status would contain.
func (f *fleet) learn(a *fleetdecide.Actions) {
	known := func(flavor string) *flavorStatus {
		if f.flavors[flavor] == nil {
			f.flavors[flavor] = &flavorStatus{}
		}
		return f.flavors[flavor]
	}
	for _, j := range a.Joined {
		l := known(j.Flavor)
		l.lag, l.Avoidance = fleetdecide.LearnLag(l.lag, j.Took), fleetdecide.Avoidance{}
	}
	for _, avoid := range a.Avoid {
		known(avoid.Flavor).Avoidance = avoid
	}
	f.memory.Abandoned(a.Abandoned)
	for i := range a.Abandoned {
		if abandoned := &a.Abandoned[i]; abandoned.New > 0 {
			known(abandoned.Flavor).Avoidance = abandoned.Avoidance
		}
	}
}

// act carries out the decision in the observed state.
func (f *fleet) act(now time.Time, s *cluster.State, a *fleetdecide.Actions) cluster.Plan {
	plan := cluster.Plan{Wake: a.Wake, Buy: purchases(a)}
	for _, o := range a.Orders {
		f.memory.Ordered(o.Flavor, now)
	}
	for _, r := range a.Uncordon {
		delete(f.marks, r.Node)
		f.memory.Uncordoned(r.Node, true)
		plan.Uncordon = append(plan.Uncordon, cluster.Stay{Node: r.Node, Reason: "its drain was cancelled"})
		setPhase(s, r.Node, cluster.Ready)
	}
	for _, c := range a.Cordon {
		mark := drain.Mark{Since: now}
		if c.Until > 0 {
			mark.Until = now.Add(c.Until)
		}
		f.marks[c.Node] = mark
		plan.Drains = append(plan.Drains, cluster.Drain{Node: c.Node, Method: cluster.Wait, Until: c.Until, CordonOnly: true, Reason: "it is no longer needed"})
		setPhase(s, c.Node, cluster.Leaving)
	}
	plan.Transfers = f.ask(now, s, a.Ask)
	for _, node := range a.Release {
		plan.Release = append(plan.Release, cluster.Release{Node: node, Reason: "it is empty"})
	}
	for i := range a.Abandoned {
		for _, name := range a.Abandoned[i].Release {
			plan.Release = append(plan.Release, cluster.Release{Node: name, Reason: a.Abandoned[i].Why})
		}
	}
	for _, r := range plan.Release {
		at := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == r.Node })
		f.released = append(f.released, fleetdecide.Machine{Machine: provider.Machine{Name: r.Node, Flavor: s.Nodes[at].Flavor, Leaving: true}})
	}
	return plan
}

func setPhase(s *cluster.State, node string, phase cluster.Phase) {
	for i := range s.Nodes {
		if s.Nodes[i].Name == node {
			s.Nodes[i].Phase = phase
		}
	}
}

// purchases returns the ordered machines with the pods that are planned on them.
func purchases(a *fleetdecide.Actions) []cluster.Purchase {
	planned := map[string][]cluster.Purchase{}
	for i := range a.Fleet.Plan.Machines {
		m := &a.Fleet.Plan.Machines[i]
		planned[m.Flavor] = append(planned[m.Flavor], cluster.Purchase{Flavor: m.Flavor, Class: class.Any, Pods: m.Pods, Reason: m.Reason})
	}
	if x := a.Fleet.Exchange; x != nil {
		for _, p := range x.Buy {
			planned[p.Flavor] = append(planned[p.Flavor], p)
		}
	}
	var all []cluster.Purchase
	for _, o := range a.Orders {
		all = append(all, planned[o.Flavor][:o.To-o.From]...)
	}
	return all
}

// ask makes the pods on the given nodes leave: each pod that has a next step and fits on another
// node.
func (f *fleet) ask(now time.Time, s *cluster.State, nodes []string) []cluster.Transfer {
	var all []cluster.Transfer
	moving := inMotion(s.Nodes)
	for _, name := range nodes {
		at := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == name })
		pods := slices.Clone(s.Nodes[at].Pods)
		slices.SortFunc(pods, cluster.Scheduled)
		for i := range pods {
			p := &pods[i]
			step := f.marks[name].Next(leaver(now, p, moving[p.Name]), now)
			method := cluster.Evict
			switch step.Do {
			case drain.Migrate:
				method = cluster.Migrate
			case drain.Evict:
			case drain.Stay, drain.GiveUp:
				continue
			}
			like := *p
			if method == cluster.Migrate && like.Arch == "" {
				like.Arch = s.Nodes[at].Arch // a state continues on its architecture only
			}
			if to := tightest(s, &like); to != nil {
				to.Pods = append(slices.Clone(to.Pods), *p)
				all = append(all, cluster.Transfer{Pod: p.Name, From: name, To: to.Name, Method: method, Reason: fmt.Sprintf("%s is drained: %s", name, step.Why)})
			}
		}
	}
	return all
}

// tightest returns the ready node with the least free memory that holds the pod, or nil.
func tightest(s *cluster.State, p *cluster.Pod) *cluster.Node {
	var best *cluster.Node
	least := int64(math.MaxInt64)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		free := n.Free()
		if n.Phase == cluster.Ready && n.HasRoom(p) && free.MemoryBytes < least {
			best, least = n, free.MemoryBytes
		}
	}
	return best
}
