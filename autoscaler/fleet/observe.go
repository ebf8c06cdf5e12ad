package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// stock is a fleet with its machines.
type stock struct {
	fleet     *v1alpha1.NodeFleet
	class     class.Class
	inventory *provider.Inventory
	prices    map[string]price // by flavor

	// traits are what the machines of each flavor have shown; see observer.readTraits.
	traits map[string]traits
}

// observation is the cluster as one fleet sees it.
type observation struct {
	view  *world.View
	state cluster.State
	// own are the fleet's machines by the names that their nodes have in the state.
	own map[string]provider.Machine
	// ordered is how many machines of each flavor there are or are to be, those that
	// leave not counted; inFlight is how many of them have no ready node.
	ordered  map[string]int
	inFlight map[string]int
	// paid is what all machines cost in an hour, those that leave included.
	paid int64
	// held are pods for which nothing can be planned, with the reasons.
	held []v1alpha1.Rejection
	// going are the nodes of machines of any fleet that have been asked to go.
	going map[string]bool
	// waited are since when the pods have waited that found no room, by name.
	waited map[string]time.Time
	// needed are the nodes that pods need for which no machine is bought, with one such pod
	// each: they are not released.
	needed map[string]string
	// starting are the fleet's machines whose nodes are ready and have yet to lose a taint, by
	// name, with that taint.
	starting map[string]corev1.Taint
}

// machinePrefix begins the names of machines in the state that pods cannot be bound to yet: no
// node has a name with a space.
const machinePrefix = "machine "

// observer puts an observation together.
type observer struct {
	now  time.Time
	lags func(flavor string) time.Duration
	observation
}

// observe looks at the cluster for one fleet of all. lags says how long machines of a
// flavor of that fleet are expected to take.
func observe(w *world.World, all []*stock, self *stock, lags func(flavor string) time.Duration, learned *runtimes.Learner, now time.Time) *observation {
	o := &observer{
		now: now, lags: lags,
		observation: observation{
			view: world.NewView(w, now, learned),
			own:  map[string]provider.Machine{}, ordered: map[string]int{}, inFlight: map[string]int{}, going: map[string]bool{},
			starting: map[string]corev1.Taint{}, waited: map[string]time.Time{},
		},
	}
	o.readPending(self)
	o.needed = o.view.NeededBy()
	seen := map[string]bool{}
	for _, s := range all {
		o.readTraits(s)
		o.addMachines(s, s == self, seen)
	}
	for name, node := range w.Nodes {
		if !seen[name] {
			o.addNode(node, cluster.Node{Name: name, Class: world.ClassOf(node, class.Any), Kept: true})
		}
	}
	o.addFlavors(self)
	o.readArrivals(w, self)
	slices.SortFunc(o.state.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(o.state.Pending, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(o.held, func(a, b v1alpha1.Rejection) int { return cmp.Compare(a.Name, b.Name) })
	return &o.observation
}

// readPending looks at the pods that wait.
func (o *observer) readPending(self *stock) {
	for _, w := range o.view.Waiting(self.class) {
		if w.Held != "" {
			o.held = append(o.held, v1alpha1.Rejection{Name: w.Name, Reason: "no machine is planned for it: " + w.Held})
			continue
		}
		o.waited[w.Name] = w.Since
		o.state.Pending = append(o.state.Pending, w.Pod)
	}
}

// readArrivals looks at the pods that came within the longest lag of the fleet, by the times
// at which they were created: so a new process knows what one before it knew. Those that have
// been deleted since are not seen.
func (o *observer) readArrivals(w *world.World, self *stock) {
	for i := range self.inventory.Flavors {
		o.state.Observed = max(o.state.Observed, o.lag(self.inventory.Flavors[i].Name, true))
	}
	for i := range w.Pods {
		pod := &w.Pods[i]
		ago := o.now.Sub(pod.CreationTimestamp.Time)
		if ago < 0 || ago >= o.state.Observed {
			continue
		}
		if p, is := o.view.Arrived(pod, self.class); is {
			p.Waited = ago
			o.state.Recent = append(o.state.Recent, p)
		}
	}
	slices.SortFunc(o.state.Recent, func(a, b cluster.Pod) int {
		return cmp.Or(cmp.Compare(a.Waited, b.Waited), cmp.Compare(a.Name, b.Name))
	})
}

func (o *observer) addNode(node *corev1.Node, n cluster.Node) {
	if pod := o.needed[node.Name]; pod != "" {
		n.Kept, n.KeptFor = true, fmt.Sprintf("pod %s needs it, and no machine is bought for that pod", pod)
	}
	o.state.Nodes = append(o.state.Nodes, o.view.Node(node, n))
}

// addMachines adds the machines of a fleet. Those of others are only looked at for
// the room that they have.
func (o *observer) addMachines(s *stock, own bool, seen map[string]bool) {
	flavors := make(map[string]*provider.Flavor, len(s.inventory.Flavors))
	for i := range s.inventory.Flavors {
		flavors[s.inventory.Flavors[i].Name] = &s.inventory.Flavors[i]
	}
	there := map[string]int{}
	for _, m := range s.inventory.Machines {
		f := flavors[m.Flavor]
		if f == nil {
			continue
		}
		if own {
			o.paid += s.prices[f.Name].microDollars
		}
		if m.Leaving {
			seen[m.Node], o.going[m.Node] = true, true
			continue
		}
		there[f.Name]++
		n := o.template(s, f, own)
		n.Age, n.Due = o.now.Sub(m.Ordered), max(0, o.lag(f.Name, own)-o.now.Sub(m.Ordered))
		node, late := o.view.Nodes[m.Node], n.Age >= joinTimeout(s.fleet, f)
		var taints []corev1.Taint
		if node != nil {
			seen[m.Node] = true
			if own {
				o.view.EvictServices(node.Name, cmp.Or(s.fleet.Spec.Consolidation.EvictServices, v1alpha1.EvictServicesNever))
			}
			taints = world.Starting(node, s.traits[f.Name].taints)
			if late || world.Joined(node) && len(taints) == 0 {
				n.Name = node.Name
				o.addNode(node, n)
				o.remember(own, node.Name, m)
				continue
			}
		}
		if len(taints) > 0 {
			n = o.startingNode(own, m.Name, node, taints[0], n)
		}
		n.Name = machinePrefix + m.Name
		if late {
			n.Phase = cluster.Leaving // no pod is to wait for it any longer
		}
		o.state.Nodes = append(o.state.Nodes, n)
		o.remember(own, n.Name, m)
		if !late || m.Unidentified == "" { // else nobody knows when it is to become known
			o.countInFlight(own, f.Name)
		}
	}
	for _, f := range s.inventory.Flavors {
		if own {
			o.ordered[f.Name] = there[f.Name]
		}
		for i := there[f.Name]; i < f.Want; i++ {
			n := o.template(s, &f, own)
			n.Name, n.Due = fmt.Sprintf(machinePrefix+"%d of %s", i+1, f.Name), o.lag(f.Name, own)
			o.state.Nodes = append(o.state.Nodes, n)
			o.countInFlight(own, f.Name)
			if own {
				o.ordered[f.Name]++
				o.paid += s.prices[f.Name].microDollars
			}
		}
	}
}

func (o *observer) remember(own bool, name string, m provider.Machine) {
	if own {
		o.own[name] = m
	}
}

func (o *observer) countInFlight(own bool, flavor string) {
	if own {
		o.inFlight[flavor]++
	}
}

// lag is how long machines of a flavor are expected to take. Those of other fleets are
// taken to come at once, so that their pods are left to them.
func (o *observer) lag(flavor string, own bool) time.Duration {
	if own {
		return o.lags(flavor)
	}
	return 0
}

// template returns a machine of a flavor that is on its way.
func (o *observer) template(s *stock, f *provider.Flavor, own bool) cluster.Node {
	seen := s.traits[f.Name]
	host := &constraint.Host{Labels: f.Labels, Taints: seen.keep(f.Taints)}
	size, pods := o.view.Overhead(host)
	if f.Seen { // else what it promises is less that already, see limitToSeen
		size.MilliCPU += seen.static.MilliCPU
		size.MemoryBytes += seen.static.MemoryBytes
		pods += seen.statics
	}
	return cluster.Node{
		Flavor: f.Name, Class: s.class, Capacity: f.Size.Minus(size), MaxPods: new(max(0, f.MaxPods-pods)), Arch: f.Labels[corev1.LabelArchStable],
		Host: host, Kept: !own, MicroDollarsPerHour: s.prices[f.Name].microDollars, Phase: cluster.Ordered,
		UnderUsed: f.Threshold, UnneededFor: f.UnneededTime,
	}
}

// addFlavors adds what can be bought.
func (o *observer) addFlavors(s *stock) {
	for i := range s.inventory.Flavors {
		f := &s.inventory.Flavors[i]
		if f.Problem != "" || !s.prices[f.Name].known {
			continue
		}
		n := o.template(s, f, true)
		if *n.MaxPods == 0 || n.Capacity.MilliCPU < 0 || n.Capacity.MemoryBytes < 0 {
			continue // DaemonSets fill it
		}
		o.state.Flavors = append(o.state.Flavors, cluster.Flavor{
			Name: f.Name, Size: n.Capacity, MaxPods: n.MaxPods, Arch: n.Arch, Host: n.Host, Most: new(max(0, f.Max-o.ordered[f.Name])),
			MicroDollarsPerHour: n.MicroDollarsPerHour,
		})
	}
}

// joinTimeout is how long a machine may take to get a ready node.
func joinTimeout(fleet *v1alpha1.NodeFleet, f *provider.Flavor) time.Duration {
	if f.JoinTimeout != nil {
		return *f.JoinTimeout
	}
	return fleet.Spec.Scaling.JoinTimeout.Duration
}
