package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// fleet is a NodeFleet in a simulation: each round is decided by [decide.Round], as in the
// autoscaler, with the fields of an installed NodeFleet. What is here only observes and
// acts, as the reconciler does against a cluster.
type fleet struct {
	spec   *v1alpha1.NodeFleetSpec
	memory *decide.Memory
	// ways is how batch pods may leave a node that declare nothing. A cluster in which
	// each is annotated with supercargo.dev/migration: checkpoint has [cluster.Migrate].
	ways cluster.Ways
	// most is how many machines there may be.
	most int
	// machines are those of the fleet that have not been asked to go, by name, and released
	// those that have, the last at the end.
	machines map[string]*bought
	released []decide.Machine
	// marks are the nodes that are cordoned, by name.
	marks map[string]drain.Mark
	// decided is when it was last decided which machines to buy: pods that waited then are not
	// gathered again.
	decided time.Time
	// flavors is what the fleet's status has of flavors, by name.
	flavors map[string]*flavorStatus
}

// bought is when a machine was ordered and when it became ready, as far as it was seen.
type bought struct{ ordered, ready time.Time }

// flavorStatus is what has been learned about a flavor.
type flavorStatus struct {
	lag *v1alpha1.LearnedTime
	decide.Avoidance
}

// supercargo is what an installation does: one NodeFleet for all pods, of which nothing is
// stated but what machines cost.
func supercargo(sc *scenario.Scenario) sim.Controller {
	return newFleet(sc, defaultFleet(), cluster.WaysOf(cluster.Migrate))
}

// SupercargoWith is the policy supercargo with a fleet that empties under-used machines, and
// batch pods that leave these in those ways alone where they declare nothing. Services stay.
func SupercargoWith(ways cluster.Ways) sim.Policy {
	return fleetPolicy(func(sc *scenario.Scenario) sim.Controller {
		spec := defaultFleet()
		spec.Consolidation.Policy = v1alpha1.ConsolidateWhenUnderUsed
		spec.Consolidation.EvictServices = v1alpha1.EvictServicesNever
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

// newFleet returns a fleet in a scenario, which says how machines are billed, how many there
// may be, and how long they take: where that is long, the fleet's owner has it wait for longer.
func newFleet(sc *scenario.Scenario, spec *v1alpha1.NodeFleetSpec, ways cluster.Ways) *fleet {
	spec.Pricing.BillingPeriod.Duration = sc.BillingPeriod
	spec.Scaling.JoinTimeout.Duration = max(spec.Scaling.JoinTimeout.Duration, 2*sc.AcquisitionLag.Mean)
	return &fleet{
		spec: spec, ways: ways, most: int(sc.MaxNodes),
		memory:   decide.NewMemory(decide.MovesConfig(&spec.Consolidation), spec.Scaling.BackOff.Duration, sim.Epoch),
		machines: map[string]*bought{}, marks: map[string]drain.Mark{}, flavors: map[string]*flavorStatus{},
	}
}

// settling is how long events are gathered before a round begins.
const settling = 200 * time.Millisecond

// Decide implements sim.Controller.
func (f *fleet) Decide(now time.Time, seen *cluster.State) cluster.Plan {
	f.recognise(now, seen)
	o := f.observe(now, seen)
	c := decide.ConfigOf(f.spec)
	c.Act, c.Limits.Machines = true, new(int64(f.most))
	actions := decide.Round(o, f.memory, c, now)
	f.learn(&actions)
	plan := f.act(now, &o.State, &actions)
	plan.Wake = max(plan.Wake, settling)
	return plan
}

// recognise notes which machines there are, and since when.
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

// observe is the cluster as the fleet sees it.
func (f *fleet) observe(now time.Time, seen *cluster.State) *decide.Observation {
	o := &decide.Observation{State: *seen, Machines: slices.Clone(f.released)}
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
	slices.SortFunc(o.Machines, func(a, b decide.Machine) int { return cmp.Compare(a.Name, b.Name) })
	o.Drains = f.draining(now, s.Nodes)
	var since []time.Time
	for i := range s.Pending {
		if at := now.Add(-s.Pending[i].Waited); at.After(f.decided) {
			since = append(since, at)
		}
	}
	o.Gather = decide.Gather(now, since, f.spec.Scaling.BatchIdle.Duration, f.spec.Scaling.BatchMax.Duration)
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
	return decide.ExpectedLag(l.lag, f.spec.Scaling.ExpectedLag.Duration)
}

// flavor is what the fleet knows of a flavor, of which there are so many machines.
func (f *fleet) flavor(of *cluster.Flavor, machines int) decide.Flavor {
	flavor := decide.Flavor{
		Name: of.Name, Size: of.Size, Sold: of.Size, MicroDollarsPerHour: of.MicroDollarsPerHour, Want: machines, Ordered: machines,
		JoinTimeout: f.spec.Scaling.JoinTimeout.Duration, Lag: f.lag(of.Name),
	}
	if l := f.flavors[of.Name]; l != nil {
		flavor.Failures, flavor.AvoidUntil, flavor.Learned = l.Failures, l.Until, l.lag != nil
	}
	return flavor
}

// observeMachine completes what the fleet knows of a machine in the state, and returns the
// machine.
func (f *fleet) observeMachine(now time.Time, n *cluster.Node) decide.Machine {
	b := f.machines[n.Name]
	m := decide.Machine{Name: n.Name, Flavor: n.Flavor, Key: n.Name, Ordered: b.ordered}
	n.Age = now.Sub(b.ordered)
	n.Waits, n.Until = false, 0 // the fleet uncordons nodes itself
	if m.OnOrder = n.Phase == cluster.Ordered; m.OnOrder {
		n.Due = max(0, f.lag(n.Flavor)-n.Age)
		if n.Age >= f.spec.Scaling.JoinTimeout.Duration {
			n.Phase = cluster.Leaving // no pod is to wait for it any longer
		}
		return m
	}
	_, drained := f.marks[n.Name]
	m.HadNode, m.Node = true, &decide.MachineNode{Name: n.Name, Created: b.ready, Changed: b.ready, Ready: true, Drained: drained}
	n.Pods = slices.Clone(n.Pods)
	for i := range n.Pods {
		f.observePod(&n.Pods[i])
	}
	return m
}

// observePod completes what the fleet knows of a pod on a node.
func (f *fleet) observePod(p *cluster.Pod) {
	if p.Class == class.Service {
		f.observeService(p)
		return
	}
	if p.Ways == 0 {
		p.Ways = f.ways
	}
	if p.Runtime == 0 {
		p.Runtime = max(time.Second, p.Overdue) // the longer it is overdue, the longer it may go on
	}
}

// observeService says how a pod of a service may leave. All pods of a scenario have a
// controller and nothing on their nodes' disks: one that declares nothing leaves unless the
// fleet asks for a word.
func (f *fleet) observeService(p *cluster.Pod) {
	switch which := f.spec.Consolidation.EvictServices; {
	case p.Fixed:
	case which == v1alpha1.EvictServicesNever, which == v1alpha1.EvictServicesOptIn && p.Ways == 0:
		p.Fixed, p.Held = true, "spec.consolidation.evictServices of the NodeFleet is "+string(which)
	case p.Ways == 0, p.Ways == cluster.WaysOf(cluster.Wait): // a service has no end to wait for, however often it was started anew
		p.Ways = cluster.WaysOf(cluster.Evict)
	}
}

// draining returns the nodes that are cordoned, by name, with the pods on them.
func (f *fleet) draining(now time.Time, nodes []cluster.Node) []decide.Draining {
	var all []decide.Draining
	moving := inMotion(nodes)
	for i := range nodes {
		n := &nodes[i]
		mark, is := f.marks[n.Name]
		if !is {
			continue
		}
		d := decide.Draining{Node: n.Name, Since: mark.Since, Until: mark.Until, Joined: true}
		for j := range n.Pods {
			p := &n.Pods[j]
			leaving := decide.LeavingPod{Name: p.Name, Class: p.Class, Resided: p.Resided}
			if step := mark.Next(leaver(now, p, moving[p.Name]), now); step.Do == drain.GiveUp {
				leaving.Stays = step.Why
			}
			d.Pods = append(d.Pods, leaving)
		}
		all = append(all, d)
	}
	return all
}

// inMotion returns the pods that are being moved: they are on both nodes.
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

// leaver is what is known of a pod that is to leave its node. A Migration starts a pod anew
// that must not be moved with its state.
func leaver(now time.Time, p *cluster.Pod, moving bool) drain.Leaver {
	l := drain.Leaver{Ways: p.Ways, Restart: true, Moving: moving}
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

// learn keeps what the fleet's status would.
func (f *fleet) learn(a *decide.Actions) {
	known := func(flavor string) *flavorStatus {
		if f.flavors[flavor] == nil {
			f.flavors[flavor] = &flavorStatus{}
		}
		return f.flavors[flavor]
	}
	for _, j := range a.Joined {
		l := known(j.Flavor)
		l.lag, l.Avoidance = decide.LearnLag(l.lag, j.Took), decide.Avoidance{}
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

// act carries out what was decided, in the state that was seen.
func (f *fleet) act(now time.Time, s *cluster.State, a *decide.Actions) cluster.Plan {
	plan := cluster.Plan{Wake: a.Wake, Buy: purchases(a)}
	for _, o := range a.Orders {
		f.memory.Ordered(o.Flavor, now)
	}
	for _, r := range a.Uncordon {
		delete(f.marks, r.Node)
		f.memory.Uncordoned(r.Node, true)
		plan.Uncordon = append(plan.Uncordon, cluster.Stay{Node: r.Node, Reason: "it is not drained after all"})
		setPhase(s, r.Node, cluster.Ready)
	}
	for _, c := range a.Cordon {
		mark := drain.Mark{Since: now}
		if c.Until > 0 {
			mark.Until = now.Add(c.Until)
		}
		f.marks[c.Node] = mark
		plan.Drains = append(plan.Drains, cluster.Drain{Node: c.Node, Method: cluster.Wait, Until: c.Until, CordonOnly: true, Reason: "it is not needed any more"})
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
		f.released = append(f.released, decide.Machine{Name: r.Node, Flavor: s.Nodes[at].Flavor, Leaving: true})
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

// purchases are the machines that are ordered, with the pods that they are planned for.
func purchases(a *decide.Actions) []cluster.Purchase {
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

// ask has the pods on nodes leave: each that has a step to take, if there is room for it.
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
			case drain.Restart, drain.Evict:
			case drain.Stay, drain.GiveUp:
				continue
			}
			if to := tightest(s, p); to != nil {
				to.Pods = append(slices.Clone(to.Pods), *p)
				all = append(all, cluster.Transfer{Pod: p.Name, From: name, To: to.Name, Method: method, Reason: fmt.Sprintf("%s is drained: %s", name, step.Why)})
			}
		}
	}
	return all
}

// tightest returns the ready node with the least free memory that holds a pod, nil if none
// does.
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
