// Package fleetobserve observes a cluster for one NodeFleet: which machines it has and has on order, what they cost, which pods
// they hold and which pods wait for more. It is the step of a round between what is read and what is decided:
//
//	StockOf, RemoveClaimed, SetPrices  the machines of each fleet, and their prices
//	Observe                            the cluster as the fleet sees it
//	Observation.Input                  the same without API objects, for fleetdecide
//
// Observing is a function of its arguments: it reads no clock and writes nothing. Only [ReadPrices] reads an object. Package
// fleet observes in each round; `supercargo explain` does so once, to tell what a round would find.
package fleetobserve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Observation is the cluster as observed for one fleet.
type Observation struct {
	// Now is when it was made, and World and View are what it was made of.
	Now   time.Time
	World *world.World
	View  *world.View
	// Self is the fleet, with its machines and their prices.
	Self *Stock
	// State is the cluster in the form in which decisions see it.
	State cluster.State
	// Own are the fleet's machines, by the names of their nodes in the state.
	Own map[string]fleetdecide.Machine
	// Ordered is the number of existing and ordered machines of each flavor, without those that are leaving. InFlight is
	// how many of them have no ready node.
	Ordered, InFlight map[string]int
	// Paid is the price of all machines in micro-dollars per hour, including those that are leaving.
	Paid int64
	// Held are pods that cannot be planned, with reasons, by name.
	Held []v1alpha1.Rejection
	// Contested describes the pods among them that another buyer serves, for each buyer, and how to separate them.
	Contested []string
	// Waited is the time since which a pod is unschedulable according to its condition, by pod name.
	Waited map[string]time.Time

	// left are the buyers to which pods among them are left, by the name of the pod.
	left map[string]*provider.Rival
	// podsOn are the pods on each node according to the cache, without those of DaemonSets.
	podsOn map[string][]*corev1.Pod
	// going are the nodes of machines, of any fleet, that are being released.
	going map[string]bool
	// needed are the nodes that pods need for which no machine is bought, with one such pod each: these nodes are not
	// released.
	needed map[string]string
}

// NotPlanned begins the reasons of Held.
const NotPlanned = "no machine is planned for it: "

// machinePrefix begins the names, in the state, of machines to which pods cannot be bound yet. No node name contains a
// space.
const machinePrefix = "machine "

// Observe observes the cluster for one fleet. all are the fleets whose machines are known, by seniority, and self is the one
// that observes. Machines are expected after the time that the status of the fleet says, and pods run as long as was
// learned.
//
// Cost: O(nodes + pods + flavors).
func Observe(w *world.World, all []*Stock, self *Stock, learned *runtimes.Learner, now time.Time) *Observation {
	return observe(w, all, self, lagsOf(self.Fleet), learned, now)
}

// observer builds an observation.
type observer struct {
	lags func(flavor string) time.Duration
	Observation
}

// observe is [Observe]. lags returns the expected start-up time of a flavor of that fleet.
func observe(w *world.World, all []*Stock, self *Stock, lags func(flavor string) time.Duration, learned *runtimes.Learner, now time.Time) *Observation {
	o := &observer{
		lags: lags,
		Observation: Observation{
			Now: now, World: w, Self: self, podsOn: podsByNode(w.Pods), View: world.NewView(w, now, learned),
			Own: map[string]fleetdecide.Machine{}, Ordered: map[string]int{}, InFlight: map[string]int{}, going: map[string]bool{},
			Waited: map[string]time.Time{}, left: map[string]*provider.Rival{},
		},
	}
	o.View.Expend(self.Fleet.Spec.Scaling.ExpendableBelow())
	o.readPending(self)
	o.needed = o.View.NeededBy()
	seen := map[string]bool{}
	for _, s := range all {
		o.readTraits(s)
		o.addMachines(s, s == self, seen)
	}
	for name, node := range w.Nodes {
		if !seen[name] {
			o.addNode(node, cluster.Node{Name: name, Class: world.ClassOf(node, class.Any), Kept: true, KeptFor: "no NodeFleet is known to own it"})
		}
	}
	o.addFlavors(self)
	o.readArrivals(w, self)
	o.leaveToRivals()
	o.State.Spreads = o.View.Spreads()
	slices.SortFunc(o.State.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(o.State.Pending, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(o.Held, func(a, b v1alpha1.Rejection) int { return cmp.Compare(a.Name, b.Name) })
	return &o.Observation
}

// podsByNode returns the pods on each node, without those of DaemonSets.
func podsByNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	on := map[string][]*corev1.Pod{}
	for _, p := range pods {
		if p.Spec.NodeName != "" && !class.EveryNode(p) {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		}
	}
	return on
}

// readPending reads the pending pods.
func (o *observer) readPending(self *Stock) {
	for _, w := range o.View.Waiting(self.Class) {
		if w.Held != "" {
			o.Held = append(o.Held, v1alpha1.Rejection{Name: w.Name, Reason: NotPlanned + w.Held})
			continue
		}
		o.Waited[w.Name] = w.Since
		o.State.Pending = append(o.State.Pending, w.Pod)
	}
}

// readArrivals reads the pods that arrived within the longest lag of the fleet, by creation time, so that a restarted
// process knows what the previous one knew. Pods deleted since then are missing.
func (o *observer) readArrivals(w *world.World, self *Stock) {
	for i := range self.Inventory.Flavors {
		o.State.Observed = max(o.State.Observed, o.lag(self.Inventory.Flavors[i].Name, true))
	}
	for _, pod := range w.Pods {
		ago := o.Now.Sub(pod.CreationTimestamp.Time)
		if ago < 0 || ago >= o.State.Observed {
			continue
		}
		if p, is := o.View.Arrived(pod, self.Class); is {
			p.Waited = ago
			o.State.Recent = append(o.State.Recent, p)
		}
	}
	slices.SortFunc(o.State.Recent, func(a, b cluster.Pod) int {
		return cmp.Or(cmp.Compare(a.Waited, b.Waited), cmp.Compare(a.Name, b.Name))
	})
}

func (o *observer) addNode(node *corev1.Node, n cluster.Node) {
	if pod := o.needed[node.Name]; pod != "" {
		n.Kept, n.KeptFor = true, fmt.Sprintf("pod %s needs it, and no machine is bought for that pod", pod)
	}
	o.State.Nodes = append(o.State.Nodes, o.View.Node(node, n))
}

// addMachines adds the machines of a fleet. Machines of other fleets count only for their free room.
func (o *observer) addMachines(s *Stock, own bool, seen map[string]bool) {
	flavors := make(map[string]*provider.Flavor, len(s.Inventory.Flavors))
	for i := range s.Inventory.Flavors {
		flavors[s.Inventory.Flavors[i].Name] = &s.Inventory.Flavors[i]
	}
	there := map[string]int{}
	for _, m := range s.Inventory.Machines {
		f := flavors[m.Flavor]
		if f == nil {
			continue
		}
		if own {
			o.Paid += s.Prices[f.Name].MicroDollars
		}
		if m.Leaving {
			seen[m.Node], o.going[m.Node] = true, true
			continue
		}
		there[f.Name]++
		n := o.template(s, f, own)
		n.Outdated = m.Outdated
		n.Age, n.Due = o.Now.Sub(m.Ordered), max(0, o.lag(f.Name, own)-o.Now.Sub(m.Ordered))
		node, late := o.View.Nodes[m.Node], n.Age >= joinTimeout(s.Fleet, f)
		lacks := "" // the startup taint or the missing resource of its node
		if node != nil {
			seen[m.Node] = true
			if own {
				o.View.EvictServices(node.Name, cmp.Or(s.Fleet.Spec.Consolidation.EvictServices, v1alpha1.EvictServicesNever))
			}
			if taints := world.Starting(node, s.traits[f.Name].taints); len(taints) > 0 {
				lacks = taintText(&taints[0])
			} else if name := o.unpublished(node, f); name != "" {
				lacks = string(name)
			}
			if late || world.Joined(node) && lacks == "" {
				n.Name = node.Name
				n.Kept, n.KeptFor = n.Kept || f.Kept != "", cmp.Or(n.KeptFor, f.Kept)
				o.addNode(node, n)
				o.addOwn(own, node.Name, m, f, "")
				continue
			}
		}
		startup := ""
		if lacks != "" {
			n, startup = o.startingNode(node, lacks, n)
		}
		n.Name = machinePrefix + m.Name
		if late {
			n.Phase = cluster.Leaving // so that no pod waits for it any longer
		}
		o.State.Nodes = append(o.State.Nodes, n)
		o.addOwn(own, n.Name, m, f, startup)
		if !late || m.Unidentified == "" { // else it is unknown when its node will be identified
			o.countInFlight(own, f.Name)
		}
	}
	o.addPromised(s, own, there)
}

// addPromised adds the machines that are desired and not made yet. there is the number of those that are made, by flavor.
func (o *observer) addPromised(s *Stock, own bool, there map[string]int) {
	for _, f := range s.Inventory.Flavors {
		if own {
			o.Ordered[f.Name] = there[f.Name]
		}
		for i := there[f.Name]; i < f.Want-f.Blocked && f.Held == ""; i++ {
			n := o.template(s, &f, own)
			n.Name, n.Due = fmt.Sprintf(machinePrefix+"%d of %s", i+1, f.Name), o.lag(f.Name, own)
			o.State.Nodes = append(o.State.Nodes, n)
			o.countInFlight(own, f.Name)
			if own {
				o.Ordered[f.Name]++
				o.Paid += s.Prices[f.Name].MicroDollars
			}
		}
	}
}

// addOwn adds a machine of the fleet, with its name in the state, its flavor, and the startup taint or missing resource of its
// node.
func (o *observer) addOwn(own bool, key string, m provider.Machine, f *provider.Flavor, startup string) {
	if !own {
		return
	}
	added := fleetdecide.Machine{Machine: m, Key: key, OnOrder: strings.HasPrefix(key, machinePrefix), Startup: startup}
	if node := o.World.Nodes[m.Node]; node != nil {
		added.NodeState = o.nodeState(node, key)
		added.NodeState.Lacks = o.unpublished(node, f)
	}
	o.Own[key] = added
}

// taintText identifies a taint.
func taintText(t *corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

// nodeState returns the node of a machine. Its pods are read by key, which must be the node's name.
func (o *Observation) nodeState(node *corev1.Node, key string) *fleetdecide.NodeState {
	c, is := world.Ready(node)
	_, drained := drain.MarkOf(node)
	n := &fleetdecide.NodeState{
		Name: node.Name, Created: node.CreationTimestamp.Time, Changed: c.LastTransitionTime.Time, Ready: is, Deleted: node.DeletionTimestamp != nil, Drained: drained,
		Notice: capacity.Notice(node),
	}
	for i := range node.Spec.Taints {
		n.Taints = append(n.Taints, taintText(&node.Spec.Taints[i]))
	}
	if !is {
		n.Remains = o.remains(key)
	}
	n.Unhealthy = unhealthy(node, o.Self.Fleet.Spec.Consolidation.UnhealthyConditions, o.Now)
	return n
}

func (o *observer) countInFlight(own bool, flavor string) {
	if own {
		o.InFlight[flavor]++
	}
}

// lag returns the expected start-up time of a flavor. Machines of other fleets are assumed to be ready at once, so that
// their pods are left to them.
func (o *observer) lag(flavor string, own bool) time.Duration {
	if own {
		return o.lags(flavor)
	}
	return 0
}

// template returns a machine of a flavor on order.
func (o *observer) template(s *Stock, f *provider.Flavor, own bool) cluster.Node {
	seen := s.traits[f.Name]
	host := &constraint.Host{Labels: f.Labels, Taints: seen.keep(f.Taints), Attaches: seen.attaches}
	if host.Attaches == nil {
		host.Attaches = f.Attaches
	}
	size, disk, pods, residents := o.View.Overhead(host)
	host.Residents = residents
	if f.EphemeralStorage != nil {
		left := *f.EphemeralStorage - disk
		host.Disk = &constraint.Disk{Total: left, Free: left}
	}
	if f.Seen { // else limitToSeen has already subtracted them
		size = size.Plus(seen.static)
		pods += seen.statics
	}
	names, whole := o.View.Extended(), f.Size
	whole.Extended = names.Capacity(f.Extended)
	return cluster.Node{
		Flavor: f.Name, Class: s.Class, Capacity: whole.Minus(size), GPUs: names.GPUs(f.Extended), MaxPods: new(max(0, f.MaxPods-pods)), Arch: f.Labels[corev1.LabelArchStable],
		Host: host, Kept: !own || f.Held != "", KeptFor: f.Held, MicroDollarsPerHour: s.Prices[f.Name].MicroDollars, Phase: cluster.Ordered,
		UnderUsed: f.Threshold, UnneededFor: f.UnneededTime,
	}
}

// addFlavors adds the flavors that can be bought.
func (o *observer) addFlavors(s *Stock) {
	for i := range s.Inventory.Flavors {
		f := &s.Inventory.Flavors[i]
		if f.Problem != "" || !s.Prices[f.Name].Known {
			continue
		}
		n := o.template(s, f, true)
		if *n.MaxPods == 0 || n.Capacity.MilliCPU < 0 || n.Capacity.MemoryBytes < 0 {
			continue // DaemonSets fill it
		}
		o.State.Flavors = append(o.State.Flavors, cluster.Flavor{
			Name: f.Name, Size: n.Capacity, GPUs: n.GPUs, Resources: o.View.Extended(), MaxPods: n.MaxPods, Arch: n.Arch, Host: n.Host, Most: mostOf(f, o.Ordered[f.Name]),
			MicroDollarsPerHour: n.MicroDollarsPerHour, Interruptions: s.Prices[f.Name].Interruptions,
		})
	}
}

// mostOf returns how many more machines of a flavor may be bought, given the number that exists or is on order; nil
// without a limit. The planner drops a flavor that another without a limit dominates: one that claims a limit for each
// flavor makes plans over a whole catalogue slow and dear.
func mostOf(f *provider.Flavor, ordered int) *int {
	if f.Max >= provider.Unlimited {
		return nil
	}
	return new(max(0, f.Max-ordered))
}

// joinTimeout returns how long a machine may take until its node is ready.
func joinTimeout(fleet *v1alpha1.NodeFleet, f *provider.Flavor) time.Duration {
	if f.JoinTimeout != nil {
		return *f.JoinTimeout
	}
	return fleet.Spec.Scaling.JoinTimeout.Duration
}
