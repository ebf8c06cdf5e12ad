package purchase

import (
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// boughtPrefix begins the names of machines of a plan in progress as nodes. No node name contains a space.
const boughtPrefix = "bought "

// byGPUs divides the pods into those that request GPUs that some flavor has, and the others.
func (r *Request) byGPUs() (some, others []Pod) {
	var sold packing.Extended
	for i := range r.Flavors {
		sold = sold.Most(r.Flavors[i].GPUs.Amounts)
	}
	if sold.None() {
		return nil, r.Pods
	}
	for _, p := range r.Pods {
		if p.Size.Extended.Shares(sold) {
			some = append(some, p)
		} else {
			others = append(others, p)
		}
	}
	return some, others
}

// forGPUsFirst plans machines for the pods that request GPUs, and then for the others, which fill what is left of these
// machines as if they were nodes. A pod that got no machine is planned again among the others: it may depend on one of them.
func (r Request) forGPUsFirst(some, others []Pod) Result {
	first := r
	first.Pods = some
	machines := first.cheapest()
	s := &secondPlan{r: &r, pods: make(map[string]*Pod, len(r.Pods)), flavors: make(map[string]*Flavor, len(r.Flavors))}
	for i := range r.Pods {
		s.pods[r.Pods[i].Name] = &r.Pods[i]
	}
	for i := range r.Flavors {
		s.flavors[r.Flavors[i].Name] = &r.Flavors[i]
	}
	rest := s.after(&machines.Plan, others).cheapest()
	return s.join(&machines, &rest)
}

// secondPlan is a plan for the pods that request no GPUs, beside machines for those that do.
type secondPlan struct {
	r       *Request
	pods    map[string]*Pod    // by name
	flavors map[string]*Flavor // by name
}

// after returns the request for the other pods once the machines of a plan are bought and its pods are placed.
func (s *secondPlan) after(p *Plan, others []Pod) Request {
	next := *s.r
	next.Pods = slices.Clone(others)
	for _, u := range p.Unplaceable {
		next.Pods = append(next.Pods, *s.pods[u.Pod])
	}
	next.Limits.Machines, next.Options.MaxMachines = machinesOf(next.Limits, next.Options), 0
	next.Nodes, next.Flavors = s.filled(p), slices.Clone(next.Flavors)
	next.Zones, next.Spreads = maps.Clone(next.Zones), maps.Clone(next.Spreads)
	for i := range p.Machines {
		m, f := &p.Machines[i], s.flavors[p.Machines[i].Flavor]
		next.Limits = next.Limits.Less(1, f.Size, f.MicroDollarsPerHour)
		next.Nodes = append(next.Nodes, s.node(m, f))
		zone := zoneOf(f.Host)
		if next.Zones == nil {
			next.Zones = map[string]int{}
		}
		next.Zones[zone]++
		s.count(&next, m.Pods, zone)
		at := slices.IndexFunc(next.Flavors, func(o Flavor) bool { return o.Name == f.Name })
		if most := next.Flavors[at].Most; most != nil {
			next.Flavors[at].Most = new(*most - 1)
		}
	}
	return next
}

// filled returns the nodes with the pods that a plan has placed on them.
func (s *secondPlan) filled(p *Plan) []ExistingNode {
	nodes, at := slices.Clone(s.r.Nodes), make(map[string]int, len(s.r.Nodes))
	for i := range nodes {
		at[nodes[i].Name] = i
	}
	for _, a := range p.Assignments {
		if !a.Waits {
			continue
		}
		n, pod := &nodes[at[a.Machine]], s.pods[a.Pod]
		n.Free = n.Free.Minus(pod.Size)
		if n.Places != nil {
			n.Places = new(*n.Places - 1)
		}
		n.Pods = append(slices.Clip(n.Pods), pod.Demands)
	}
	return nodes
}

// node returns a machine of a plan as a node with its pods.
func (s *secondPlan) node(m *Machine, f *Flavor) ExistingNode {
	n := ExistingNode{Name: boughtPrefix + m.Name, Free: f.Size.Minus(m.Used), Arch: f.Arch, Host: f.Host, flavor: f.Name}
	if f.MaxPods != nil {
		n.Places = new(*f.MaxPods - int64(len(m.Pods)))
	}
	n.Pods = make([]*constraint.Pod, 0, len(m.Pods))
	for _, pod := range m.Pods {
		n.Pods = append(n.Pods, s.pods[pod].Demands)
	}
	return n
}

// count counts pods in a zone for their soft spread constraints.
func (s *secondPlan) count(next *Request, pods []string, zone string) {
	for _, name := range pods {
		key := s.pods[name].Spread
		if key == "" {
			continue
		}
		zones := maps.Clone(next.Spreads[key])
		if zones == nil {
			zones = map[string]int{}
		}
		zones[zone]++
		if next.Spreads == nil {
			next.Spreads = map[string]map[string]int{}
		}
		next.Spreads[key] = zones
	}
}

// join returns both plans as one: the pods of the second on machines of the first are on these.
func (s *secondPlan) join(machines, rest *Result) Result {
	joined, at := Result{Plan: Plan{Unplaceable: rest.Unplaceable}}, map[string]int{}
	for i := range machines.Machines {
		at[boughtPrefix+machines.Machines[i].Name] = i
	}
	fillers := make([][]string, len(machines.Machines))
	for _, a := range slices.Concat(machines.Assignments, rest.Assignments) {
		if i, is := at[a.Machine]; is {
			fillers[i] = append(fillers[i], a.Pod)
		} else if a.Waits {
			joined.Assignments = append(joined.Assignments, a)
		}
	}
	for i := range machines.Machines {
		m := &machines.Machines[i]
		s.add(&joined.Plan, s.flavors[m.Flavor], slices.Concat(m.Pods, fillers[i]))
	}
	for i := range rest.Machines {
		joined.Machines = append(joined.Machines, rest.Machines[i])
		joined.MicroDollarsPerHour += rest.Machines[i].MicroDollarsPerHour
	}
	joined.name()
	joined.sort()
	joined.LowerBoundMicroDollarsPerHour = max(machines.LowerBoundMicroDollarsPerHour, s.least(&joined.Plan))
	joined.Gap = Gap(joined.MicroDollarsPerHour, joined.LowerBoundMicroDollarsPerHour)
	return joined
}

// add adds a machine for these pods to a plan.
func (s *secondPlan) add(p *Plan, f *Flavor, pods []string) {
	used, paid := packing.Size{}, time.Duration(0)
	for _, name := range pods {
		used = used.Plus(s.pods[name].Size)
		paid = max(paid, s.r.Options.Paid(s.pods[name].Runtime))
	}
	p.add(f, pods, used, paid)
}

// least returns a lower bound of the price of machines for the placed pods, which may be any that hold them.
func (s *secondPlan) least(p *Plan) int64 {
	placed := make([]Pod, 0, len(p.Assignments))
	for _, a := range p.Assignments {
		placed = append(placed, *s.pods[a.Pod])
	}
	if len(placed) == 0 {
		return 0
	}
	flavors := slices.Clone(s.r.Flavors)
	for i := range flavors {
		flavors[i].GPUs = extended.GPUs{}
	}
	return mix.Least(newBoundInput(sorted(placed, Services), flavors, s.r.Nodes, s.r.Options), nil)
}
