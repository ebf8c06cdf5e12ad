package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
)

// stock is a fleet with its machines.
type stock struct {
	fleet     *v1alpha1.NodeFleet
	class     class.Class
	inventory *provider.Inventory
	prices    map[string]price // by flavor
}

// observation is the cluster as one fleet sees it.
type observation struct {
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
	// waited are since when the pods have waited that found no room.
	waited []time.Time
}

// observer puts an observation together.
type observer struct {
	world    *world
	now      time.Time
	lags     func(flavor string) time.Duration
	learned  *runtimes.Learner
	compiler *constraint.Compiler
	daemons  []daemon
	onNode   map[string][]*corev1.Pod
	observation
}

// daemon is what the pods of a DaemonSet take of each machine.
type daemon struct {
	demands *constraint.Pod
	size    packing.Size
}

// observe looks at the cluster for one fleet of all. lags says how long machines of a
// flavor of that fleet are expected to take.
func observe(w *world, all []*stock, self *stock, lags func(flavor string) time.Duration, learned *runtimes.Learner, now time.Time) *observation {
	o := &observer{
		world: w, now: now, lags: lags, learned: learned, compiler: w.compiler(), onNode: map[string][]*corev1.Pod{},
		observation: observation{
			own: map[string]provider.Machine{}, ordered: map[string]int{}, inFlight: map[string]int{}, going: map[string]bool{},
		},
	}
	o.readDaemons()
	o.readPods(self)
	seen := map[string]bool{}
	for _, s := range all {
		o.addMachines(s, s == self, seen)
	}
	for name, node := range w.nodes {
		if !seen[name] {
			o.addNode(node, cluster.Node{Name: name, Class: classOf(node, class.Any), Kept: true})
		}
	}
	o.addFlavors(self)
	slices.SortFunc(o.state.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(o.state.Pending, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(o.held, func(a, b v1alpha1.Rejection) int { return cmp.Compare(a.Name, b.Name) })
	return &o.observation
}

func classOf(node *corev1.Node, unlabelled class.Class) class.Class {
	c, _ := class.OfNode(node, unlabelled) // a label that is none is as no label
	return c
}

// toleratedByDaemons are the taints that the DaemonSet controller lets its pods
// tolerate.
var toleratedByDaemons = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// daemonPod returns a pod of a DaemonSet as its controller makes it.
func daemonPod(set *appsv1.DaemonSet) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, Labels: set.Spec.Template.Labels},
		Spec:       *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleratedByDaemons...)
	return pod
}

func (o *observer) readDaemons() {
	for i := range o.world.daemons {
		pod := daemonPod(&o.world.daemons[i])
		demands, err := o.compiler.Compile(pod)
		if err != nil {
			continue // the API server has let it pass: its pods run nowhere
		}
		size, _ := requests(pod)
		o.daemons = append(o.daemons, daemon{demands: demands, size: size})
	}
}

// requests returns what a pod asks for, and the name of a resource beside CPU and
// memory if it asks for one.
func requests(pod *corev1.Pod) (packing.Size, corev1.ResourceName) {
	cpu, memory, extended := constraint.Requests(pod)
	var other corev1.ResourceName
	for name, amount := range extended {
		if amount > 0 && name != corev1.ResourceEphemeralStorage && (other == "" || name < other) {
			other = name
		}
	}
	return packing.Size{MilliCPU: cpu, MemoryBytes: memory}, other
}

// overhead is what the pods of DaemonSets take of a machine, and how many there are.
func (o *observer) overhead(host *constraint.Host) (size packing.Size, pods int64) {
	for i := range o.daemons {
		if d := &o.daemons[i]; d.demands.Admits(host) == "" {
			size.MilliCPU += d.size.MilliCPU
			size.MemoryBytes += d.size.MemoryBytes
			pods++
		}
	}
	return size, pods
}

// readPods sorts pods into those on nodes and those that wait.
func (o *observer) readPods(self *stock) {
	for i := range o.world.pods {
		pod := &o.world.pods[i]
		node := cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName)
		if node != "" && o.world.nodes[node] != nil {
			o.onNode[node] = append(o.onNode[node], pod)
			continue
		}
		c, is := unschedulable(pod)
		if kind, _ := class.OfPod(pod); !is || class.EveryNode(pod) || !self.class.Takes(kind) {
			continue
		}
		pod, reason := o.world.volumes.settle(pod)
		if reason == "" {
			reason = constraint.Unsupported(pod)
		}
		if _, other := requests(pod); reason == "" && other != "" {
			reason = fmt.Sprintf("resource %s", other)
		}
		p, err := o.pod(pod, true)
		if reason == "" && err != nil {
			reason = err.Error()
		}
		if reason != "" {
			o.held = append(o.held, v1alpha1.Rejection{Name: podName(pod), Reason: "no machine is planned for it: " + reason})
			continue
		}
		p.Waited = max(0, o.now.Sub(c.LastTransitionTime.Time))
		o.waited = append(o.waited, c.LastTransitionTime.Time)
		o.state.Pending = append(o.state.Pending, p)
	}
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// pod returns a pod as decisions see it.
func (o *observer) pod(pod *corev1.Pod, waits bool) (cluster.Pod, error) {
	kind, _ := class.OfPod(pod) // a label that is none is as no label
	size, _ := requests(pod)
	p := cluster.Pod{Item: packing.Item{Name: podName(pod), Size: size}, Class: kind, Fixed: o.fixed(pod)}
	switch {
	case kind != class.Batch:
	case waits:
		p.Runtime = runtimes.EstimateOf(pod, o.learned, runtimes.Default).Runtime
	default:
		p.Runtime = runtimes.Expected(pod, o.learned, runtimes.Default).Sub(o.now)
		if p.Runtime <= 0 {
			p.Runtime = max(time.Second, -p.Runtime) // the longer it is overdue, the longer it may go on
		}
		if start := pod.Status.StartTime; start != nil {
			p.Ran = max(0, o.now.Sub(start.Time))
		}
	}
	compile := o.compiler.Compile
	if !waits {
		compile = o.compiler.CompileSuccessor
	}
	var err error
	p.Demands, err = compile(pod)
	return p, err
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
		node, late := o.world.nodes[m.Node], n.Age >= joinTimeout(s.fleet, f)
		if node != nil {
			seen[m.Node] = true
			if late || joined(node) {
				n.Name = node.Name
				o.addNode(node, n)
				o.remember(own, node.Name, m)
				continue
			}
		}
		n.Name = "machine " + m.Name
		if late {
			n.Phase = cluster.Leaving // no pod is to wait for it any longer
		}
		o.state.Nodes = append(o.state.Nodes, n)
		o.remember(own, n.Name, m)
		o.countInFlight(own, f.Name)
	}
	for _, f := range s.inventory.Flavors {
		if own {
			o.ordered[f.Name] = there[f.Name]
		}
		for i := there[f.Name]; i < f.Want; i++ {
			n := o.template(s, &f, own)
			n.Name, n.Due = fmt.Sprintf("machine %d of %s", i+1, f.Name), o.lag(f.Name, own)
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

// joined reports whether the machine of a node has come: the node is ready, and has
// lost the taints that keep pods away until then.
func joined(node *corev1.Node) bool {
	_, is := ready(node)
	return is && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == "node.cluster.x-k8s.io/uninitialized" || t.Key == "node.cloudprovider.kubernetes.io/uninitialized"
	})
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
	host := &constraint.Host{Labels: f.Labels, Taints: f.Taints}
	size, pods := o.overhead(host)
	return cluster.Node{
		Flavor: f.Name, Class: s.class, Capacity: f.Size.Minus(size), MaxPods: max(0, f.MaxPods-pods), Arch: f.Labels[corev1.LabelArchStable],
		Host: host, Kept: !own, MicroDollarsPerHour: s.prices[f.Name].microDollars, Phase: cluster.Ordered,
		UnderUsed: f.Threshold, UnneededFor: f.UnneededTime,
	}
}

// addNode adds a node that there is, with its pods. n says what else is known of it.
func (o *observer) addNode(node *corev1.Node, n cluster.Node) {
	allocatable := node.Status.Allocatable
	n.Capacity = packing.Size{MilliCPU: allocatable.Cpu().MilliValue(), MemoryBytes: allocatable.Memory().Value()}
	n.MaxPods = allocatable.Pods().Value()
	n.Arch, n.Host = node.Labels[corev1.LabelArchStable], constraint.NewHost(node)
	n.Class = classOf(node, n.Class)
	n.Phase, n.Due = cluster.Ready, 0
	if _, is := ready(node); !is || node.Spec.Unschedulable || node.DeletionTimestamp != nil {
		n.Phase = cluster.Leaving
	}
	for _, pod := range o.onNode[node.Name] {
		if class.EveryNode(pod) {
			size, _ := requests(pod)
			n.Capacity = n.Capacity.Minus(size)
			n.MaxPods--
			continue
		}
		p, err := o.pod(pod, false)
		if err != nil {
			n.Kept = true
			p.Fixed = true
		}
		if pod.Spec.NodeName == "" {
			n.Incoming++
		}
		n.Pods = append(n.Pods, p)
	}
	slices.SortFunc(n.Pods, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	n.MaxPods = max(n.MaxPods, int64(len(n.Pods)), 1) // 0 would be any number
	o.state.Nodes = append(o.state.Nodes, n)
}

// addFlavors adds what can be bought.
func (o *observer) addFlavors(s *stock) {
	for i := range s.inventory.Flavors {
		f := &s.inventory.Flavors[i]
		if f.Problem != "" || !s.prices[f.Name].known {
			continue
		}
		n := o.template(s, f, true)
		if n.MaxPods == 0 || n.Capacity.MilliCPU < 0 || n.Capacity.MemoryBytes < 0 {
			continue // DaemonSets fill it
		}
		most := f.Max - o.ordered[f.Name]
		if most <= 0 {
			most = -1
		}
		o.state.Flavors = append(o.state.Flavors, cluster.Flavor{
			Name: f.Name, Size: n.Capacity, MaxPods: n.MaxPods, Arch: n.Arch, Host: n.Host, Most: most,
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
