package world

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
)

// View is a World at a moment, as decisions see it. Nodes without an own word about it
// take all pods.
type View struct {
	*World
	now      time.Time
	learned  *runtimes.Learner
	compiler *constraint.Compiler
	daemons  []daemon
	onNode   map[string][]*corev1.Pod
	waiting  []*corev1.Pod
	peers    map[string]*corev1.Node             // see findPeers
	moving   map[types.UID]bool                  // the pods that Migrations in flight move
	services map[string]v1alpha1.ServiceEviction // by node, see EvictServices

	// forbidding are the PodDisruptionBudgets that allow for no disruption, by namespace; without, unless
	// nil, is the name of one that is looked past, "" for all.
	forbidding map[string][]forbidding
	without    *string
}

// Now is the moment at which the world is looked at.
func (v *View) Now() time.Time { return v.now }

// NewView looks at a world at a moment. How long batch pods run that do not say so is what
// was learned.
//
// A pod is on the node that it is bound to, or else on the one that it is nominated for
// or whose room is reserved for it by a Migration: nobody else is to count on that room.
func NewView(w *World, now time.Time, learned *runtimes.Learner) *View {
	v := &View{
		World: w, now: now, learned: learned, compiler: w.Compiler(), onNode: map[string][]*corev1.Pod{},
		peers: w.findPeers(), moving: w.moving(), forbidding: forbiddingBudgets(w.Budgets),
	}
	v.readDaemons()
	reserved := w.reserved()
	for i := range w.Pods {
		pod := &w.Pods[i]
		if node := cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName, reserved[string(pod.UID)]); node != "" && w.Nodes[node] != nil {
			v.onNode[node] = append(v.onNode[node], pod)
			continue
		}
		v.waiting = append(v.waiting, pod)
	}
	return v
}

// reserved returns the nodes whose room is reserved for pods by Migrations, by the UIDs of
// the pods.
func (w *World) reserved() map[string]string {
	all := map[string]string{}
	for i := range w.Migrations {
		if r := w.Migrations[i].Status.Reservation; r != nil && !Ended(&w.Migrations[i]) {
			all[r.PodUID] = r.Node
		}
	}
	return all
}

// moving returns the pods that Migrations in flight move.
func (w *World) moving() map[types.UID]bool {
	all := map[types.UID]bool{}
	for i := range w.Migrations {
		if m := &w.Migrations[i]; m.Status.Plan != nil && !Ended(m) {
			all[types.UID(m.Status.Plan.PodUID)] = true
		}
	}
	return all
}

// Moved reports whether a Migration in flight moves a pod.
func (v *View) Moved(pod *corev1.Pod) bool { return v.moving[pod.UID] }

// Ended reports whether nothing is done any more for a Migration.
func Ended(m *v1alpha1.Migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.MigrationFinished)
}

// Waiting is a pod that found no room.
type Waiting struct {
	cluster.Pod
	// Since is when it was found that there is none.
	Since time.Time
	// Held is why nothing can be planned for it; empty as a rule. The pod then has no
	// more than its name.
	Held string
}

// Waiting returns the pods of a class that found no room. Those that Migrations have made
// are not among them: nothing is bought for a move.
func (v *View) Waiting(of class.Class) (all []Waiting) {
	for _, pod := range v.waiting {
		c, is := Unschedulable(pod)
		if kind, _ := class.OfPod(pod); !is || class.EveryNode(pod) || Restoring(pod) || !of.Takes(kind) {
			continue
		}
		w := Waiting{Since: c.LastTransitionTime.Time}
		w.Pod, w.Held = v.wait(pod)
		w.Waited = max(0, v.now.Sub(w.Since))
		all = append(all, w)
	}
	return all
}

// Arrived returns a pod, however far it has come by now, as one of its kind that is yet to
// come, and whether machines of a class could be bought for it.
func (v *View) Arrived(pod *corev1.Pod, of class.Class) (cluster.Pod, bool) {
	if kind, _ := class.OfPod(pod); class.EveryNode(pod) || Restoring(pod) || !of.Takes(kind) {
		return cluster.Pod{}, false
	}
	p, held := v.wait(pod)
	return p, held == ""
}

// wait returns a pod that waits, or only its name and why nothing can be planned for it.
func (v *View) wait(pod *corev1.Pod) (p cluster.Pod, held string) {
	pod, held = v.plannable(pod)
	p, err := v.pod(pod, true)
	if held == "" && err != nil {
		held = err.Error()
	}
	if held != "" {
		p = cluster.Pod{Item: packing.Item{Name: PodName(pod)}}
	}
	return p, held
}

// plannable returns a pod with what its volumes demand of a node, or why nothing can be planned for
// it: it needs something that is not known of machines yet to be bought.
func (v *View) plannable(pod *corev1.Pod) (settled *corev1.Pod, held string) {
	settled, held = v.volumes.settle(pod)
	if held == "" {
		held = constraint.Unsupported(settled)
	}
	if _, other := Requests(settled); held == "" && other != "" {
		held = fmt.Sprintf("resource %s", other)
	}
	return settled, held
}

// Successor returns what the pod that would follow this one elsewhere demands of nodes, or why
// nothing can be planned for it.
func (v *View) Successor(pod *corev1.Pod) (demands *constraint.Pod, held string) {
	settled, held := v.plannable(pod)
	if held != "" {
		return nil, held
	}
	demands, err := v.compiler.CompileSuccessor(settled)
	if err != nil {
		return nil, err.Error()
	}
	return demands, ""
}

// On returns the pods that are on a node or on their way to it. The caller must not change them.
func (v *View) On(node string) []*corev1.Pod { return v.onNode[node] }

// PodName is the name that decisions know a pod by: namespace/name.
func PodName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// pod returns a pod as decisions see it, and an error if it cannot be known what it
// demands of nodes. One that does not wait is seen as the one that would follow it
// elsewhere.
func (v *View) pod(pod *corev1.Pod, waits bool) (cluster.Pod, error) {
	kind, _ := class.OfPod(pod) // a label that is none is as no label
	size, _ := Requests(pod)
	p := cluster.Pod{Item: packing.Item{Name: PodName(pod), Size: size}, Class: kind, Namespace: pod.Namespace, Images: imagesOf(pod)}
	if !waits {
		exit := v.Exit(pod)
		p.Ways, p.Held = exit.Now(), cmp.Or(exit.Held, exit.Budget)
		p.Fixed = p.Ways == 0
	}
	switch {
	case kind != class.Batch:
	case waits:
		p.Runtime = runtimes.EstimateOf(pod, v.learned, runtimes.Default).Runtime
		p.Guessed = v.guessed(pod)
	default:
		p.Guessed = v.guessed(pod)
		p.Runtime = runtimes.Expected(pod, v.learned, runtimes.Default).Sub(v.now)
		if p.Runtime <= 0 {
			p.Overdue = -p.Runtime
			p.Runtime = max(time.Second, -p.Runtime) // the longer it is overdue, the longer it may go on
		}
		if start := pod.Status.StartTime; start != nil {
			p.Ran = max(0, v.now.Sub(start.Time))
		}
	}
	if start := pod.Status.StartTime; start != nil {
		p.Resided = max(0, v.now.Sub(start.Time))
	}
	compile := v.compiler.Compile
	if !waits {
		compile = v.compiler.CompileSuccessor
		pod, _ = v.volumes.settle(pod) // one whose volumes cannot be settled stays: see pinned
	}
	var err error
	p.Demands, err = compile(pod)
	return p, err
}

// guessed reports whether nothing is known of how long a batch pod runs. The finish that
// its scheduler wrote may be a guess as well.
func (v *View) guessed(pod *corev1.Pod) bool {
	return runtimes.EstimateOf(pod, v.learned, runtimes.Default).Source == runtimes.FromDefault
}

// Node completes what is known of a node by what the API server says of it: what pods can
// use, its phase, its pods.
func (v *View) Node(node *corev1.Node, n cluster.Node) cluster.Node {
	allocatable := node.Status.Allocatable
	most := allocatable.Pods().Value()
	n.Capacity = packing.Size{MilliCPU: allocatable.Cpu().MilliValue(), MemoryBytes: allocatable.Memory().Value()}
	n.Arch, n.Host = node.Labels[corev1.LabelArchStable], constraint.NewHost(node)
	n.Class = ClassOf(node, n.Class)
	n.Phase, n.Due = cluster.Ready, 0
	if _, is := Ready(node); !is || node.Spec.Unschedulable || node.DeletionTimestamp != nil {
		n.Phase = cluster.Leaving
	}
	for _, pod := range v.onNode[node.Name] {
		if class.EveryNode(pod) {
			size, _ := Requests(pod)
			n.Capacity = n.Capacity.Minus(size)
			most--
			continue
		}
		p, err := v.pod(pod, false)
		if err != nil {
			n.Kept = true
			p.Fixed, p.Held = true, err.Error()
		}
		if pod.Spec.NodeName == "" {
			n.Incoming++
		}
		n.Pods = append(n.Pods, p)
	}
	slices.SortFunc(n.Pods, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	n.MaxPods = new(max(most, int64(len(n.Pods))))
	return n
}

// ClassOf is which pods a node takes: what its label says, if it says so.
func ClassOf(node *corev1.Node, unlabelled class.Class) class.Class {
	c, _ := class.OfNode(node, unlabelled) // a label that is none is as no label
	return c
}

// Requests returns what a pod asks for, and the name of a resource beside CPU and
// memory if it asks for one.
func Requests(pod *corev1.Pod) (packing.Size, corev1.ResourceName) {
	cpu, memory, extended := constraint.Requests(pod)
	var other corev1.ResourceName
	for name, amount := range extended {
		if amount > 0 && name != corev1.ResourceEphemeralStorage && (other == "" || name < other) {
			other = name
		}
	}
	return packing.Size{MilliCPU: cpu, MemoryBytes: memory}, other
}
