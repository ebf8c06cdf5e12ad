package world

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
)

// View is a World at a point in time, in the form that decisions need. Nodes without the class label accept all pods. It is
// not safe for concurrent use, because it remembers what it has computed.
type View struct {
	*World
	now      time.Time
	learned  *runtimes.Learner
	compiler *constraint.Compiler
	daemons  []daemon
	onNode   map[string][]*corev1.Pod
	waiting  []*corev1.Pod
	peers    map[string]*corev1.Node             // see findPeers
	moving   map[types.UID]bool                  // the pods that Migrations in progress move
	services map[string]v1alpha1.ServiceEviction // by node, see EvictServices
	cutoff   int32                               // see Expend

	successors successors
	spreads    map[string]map[string]int              // see View.Spreads
	labelled   map[string]map[[2]string][]*corev1.Pod // by label, then namespace and value: see podsWith
	daemonSets map[daemonSet]constraint.Resident
	known      map[*corev1.Pod]*facts // of pods that Facts does not remember
	names      extended.Names         // of the extended resources that sizes have
	shared     *extended.Names        // a copy for others

	// selecting are the PodDisruptionBudgets, by namespace. without, if not nil, is the name of one to ignore, or "" for
	// all. oneBudget ignores that several of them select a pod.
	selecting map[string][]selecting
	without   *string
	oneBudget bool
}

// Now returns the time of the view.
func (v *View) Now() time.Time { return v.now }

// NewView returns a view of the world at the given time. learned provides the runtimes of batch pods that declare none.
//
// A pod counts on the node that it is bound to, else on the one that it is nominated for or that a Migration has
// reserved for it, so that no other pod is given that room.
func NewView(w *World, now time.Time, learned *runtimes.Learner) *View {
	v := &View{
		World: w, now: now, learned: learned, compiler: w.Compiler(), onNode: map[string][]*corev1.Pod{},
		peers: w.findPeers(), moving: w.moving(), cutoff: math.MinInt32, selecting: readBudgets(w.Budgets), known: map[*corev1.Pod]*facts{},
		spreads: map[string]map[string]int{}, labelled: map[string]map[[2]string][]*corev1.Pod{},
	}
	w.Facts.prune(w.Pods)
	v.readNames()
	v.readSuccessors()
	v.readDaemons()
	reserved := w.reserved()
	for _, pod := range w.Pods {
		if node := cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName, reserved[string(pod.UID)]); node != "" && w.Nodes[node] != nil {
			v.onNode[node] = append(v.onNode[node], pod)
			continue
		}
		v.waiting = append(v.waiting, pod)
	}
	return v
}

// Expend makes the pods with a priority below the cutoff expendable: no machine is bought for them, and they keep none. By
// default, no pod is expendable.
func (v *View) Expend(cutoff int32) { v.cutoff = cutoff }

// Expendable reports whether a pod is expendable: see [View.Expend]. A pod without a priority is not.
func (v *View) Expendable(pod *corev1.Pod) bool {
	return pod.Spec.Priority != nil && *pod.Spec.Priority < v.cutoff
}

// reserved returns the nodes on which Migrations reserve room for pods, by the UIDs of the pods.
func (w *World) reserved() map[string]string {
	all := map[string]string{}
	for i := range w.Migrations {
		if r := w.Migrations[i].Status.Reservation; r != nil && !Ended(&w.Migrations[i]) {
			all[r.PodUID] = r.Node
		}
	}
	return all
}

// moving returns the pods that Migrations in progress move.
func (w *World) moving() map[types.UID]bool {
	all := map[types.UID]bool{}
	for i := range w.Migrations {
		if m := &w.Migrations[i]; m.Status.Plan != nil && !Ended(m) {
			all[types.UID(m.Status.Plan.PodUID)] = true
		}
	}
	return all
}

// Moved reports whether a Migration in progress moves the pod.
func (v *View) Moved(pod *corev1.Pod) bool { return v.moving[pod.UID] }

// Ended reports whether the Migration has finished.
func Ended(m *v1alpha1.Migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.MigrationFinished)
}

// Waiting is an unschedulable pod.
type Waiting struct {
	cluster.Pod
	// Since is when the pod became unschedulable.
	Since time.Time
	// Held is the reason why nothing can be planned for the pod; usually empty. If it is set, Pod has only a name.
	Held string
}

// Waiting returns the unschedulable pods of a class. It omits expendable pods, and pods that Migrations created, because
// nothing is bought for a move.
func (v *View) Waiting(of class.Class) (all []Waiting) {
	for _, pod := range v.waiting {
		c, is := Unschedulable(pod)
		if kind, _ := class.OfPod(pod); !is || class.EveryNode(pod) || Restoring(pod) || v.Expendable(pod) || !of.Takes(kind) {
			continue
		}
		w := Waiting{Since: c.LastTransitionTime.Time}
		w.Pod, w.Held = v.wait(pod)
		w.Waited = max(0, v.now.Sub(w.Since))
		all = append(all, w)
	}
	return all
}

// Arrived returns a pod, whatever its state, as if it were still pending, and whether machines of a class could be
// bought for it.
func (v *View) Arrived(pod *corev1.Pod, of class.Class) (cluster.Pod, bool) {
	if kind, _ := class.OfPod(pod); class.EveryNode(pod) || Restoring(pod) || v.Expendable(pod) || !of.Takes(kind) {
		return cluster.Pod{}, false
	}
	p, held := v.wait(pod)
	return p, held == ""
}

// wait returns a pending pod, or only its name and the reason why nothing can be planned for it.
func (v *View) wait(pod *corev1.Pod) (p cluster.Pod, held string) {
	settled, held := v.plannable(pod)
	p, err := v.pod(settled, true)
	if held == "" && err != nil {
		held = err.Error()
	}
	if held != "" {
		return cluster.Pod{Item: packing.Item{Name: PodName(pod)}}, held
	}
	p.Demands, p.Spread = v.attaching(p.Demands, pod, false), v.spreadOf(pod)
	return p, ""
}

// plannable returns a pod with the node constraints of its volumes, or the reason why nothing can be planned for it: it
// needs something that is unknown for future machines.
func (v *View) plannable(pod *corev1.Pod) (settled *corev1.Pod, held string) {
	settled, held = v.volumes.settle(pod)
	if held == "" {
		held = constraint.Unsupported(settled)
	}
	if _, other := v.asks(pod); held == "" && other != "" {
		held = fmt.Sprintf("resource %s", other)
	}
	return settled, held
}

// Successor returns the constraints of the pod that would replace this one on another node, or the reason why nothing
// can be planned for it.
func (v *View) Successor(pod *corev1.Pod) (demands *constraint.Pod, held string) {
	settled, held := v.plannable(pod)
	if held != "" {
		return nil, held
	}
	demands, err := v.compiler.CompileSuccessor(settled)
	if err != nil {
		return nil, err.Error()
	}
	return v.attaching(demands.Needing(v.facts(pod).disk, false), pod, true), ""
}

// On returns the pods on a node or on their way to it. The caller must not change them.
func (v *View) On(node string) []*corev1.Pod { return v.onNode[node] }

// PodName returns the name of a pod in decisions: namespace/name.
func PodName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// pod returns a pod as decisions see it, and an error if its constraints cannot be parsed. If the pod is not pending,
// the result describes the pod that would replace it on another node.
func (v *View) pod(pod *corev1.Pod, waits bool) (cluster.Pod, error) {
	of := v.facts(pod)
	p := cluster.Pod{Item: packing.Item{Name: of.name, Size: v.size(pod)}, Class: of.class, Namespace: pod.Namespace, Images: of.images, Controller: of.controller}
	p.Expendable = v.Expendable(pod)
	p.Repeats = of.class == class.Batch && !copied(pod)
	if !waits {
		exit := v.Exit(pod)
		p.Ways, p.Held = exit.Now(), cmp.Or(exit.Held, exit.Budget)
		p.Fixed = p.Ways == 0
		if !copied(pod) {
			p.Successor = v.successor(pod)
		}
	}
	switch {
	case of.class != class.Batch:
	case waits:
		p.Runtime = runtimes.EstimateOf(pod, v.learned, runtimes.Default).Runtime
		p.Guessed = v.guessed(pod)
	default:
		p.Guessed = v.guessed(pod)
		p.Runtime = runtimes.Expected(pod, v.learned, runtimes.Default).Sub(v.now)
		if p.Runtime <= 0 {
			p.Overdue = -p.Runtime
			p.Runtime = max(time.Second, -p.Runtime) // the longer it is overdue, the longer it may continue
		}
		if start := pod.Status.StartTime; start != nil {
			p.Ran = max(0, v.now.Sub(start.Time))
		}
	}
	if start := pod.Status.StartTime; start != nil {
		p.Resided = max(0, v.now.Sub(start.Time))
	}
	compile, settled := v.compiler.Compile, pod
	if !waits {
		compile = v.compiler.CompileSuccessor
		settled, _ = v.volumes.settle(pod) // a pod whose volumes cannot be settled is pinned
	}
	var err error
	if p.Demands, err = compile(settled); err != nil {
		return p, err
	}
	p.Demands = p.Demands.Needing(of.disk, !waits)
	if !waits {
		p.Demands = v.attaching(p.Demands, pod, true)
	}
	return p, nil
}

// guessed reports whether nothing is known about how long a batch pod runs. Then the finish that the scheduler wrote is
// a guess too.
func (v *View) guessed(pod *corev1.Pod) bool {
	return runtimes.EstimateOf(pod, v.learned, runtimes.Default).Source == runtimes.FromDefault
}

// Node completes n with the state of the node in the API: what pods can use, its phase, its pods.
func (v *View) Node(node *corev1.Node, n cluster.Node) cluster.Node {
	allocatable := node.Status.Allocatable
	most := allocatable.Pods().Value()
	n.Capacity = v.Allocatable(node)
	if gpus := v.names.GPUs(extended.Amounts(allocatable)); gpus.Any || !n.GPUs.Any {
		n.GPUs = gpus // else they are expected, and not published
	}
	n.Arch, n.Host = node.Labels[corev1.LabelArchStable], constraint.NewHost(node)
	n.Class = ClassOf(node, n.Class)
	n.Phase, n.Due = cluster.Ready, 0
	if _, is := Ready(node); !is || node.Spec.Unschedulable || node.DeletionTimestamp != nil || capacity.Notice(node) != "" {
		n.Phase = cluster.Leaving
	}
	total := allocatable.StorageEphemeral().Value()
	n.Host.Disk = &constraint.Disk{Total: total, Free: total}
	n.Host.Attaches = v.driversOn(node.Name)
	pods := v.onNode[node.Name]
	for _, pod := range pods {
		of := v.facts(pod)
		n.Host.Disk.Free -= of.disk
		if of.everyNode {
			n.Host.Disk.Total -= of.disk
			n.Capacity = n.Capacity.Minus(v.size(pod))
			most--
			if r, is := v.resident(pod); is {
				n.Host.Residents = append(n.Host.Residents, r)
			}
			continue
		}
		p, err := v.pod(pod, false)
		if err != nil {
			n.Kept = true
			p.Fixed, p.Held = true, err.Error()
		}
		if pod.Spec.NodeName == "" && !p.Expendable {
			n.Incoming++
		}
		if n.Pods == nil {
			n.Pods = make([]cluster.Pod, 0, len(pods))
		}
		n.Pods = append(n.Pods, p)
	}
	slices.SortFunc(n.Pods, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	n.MaxPods = new(max(most, int64(len(n.Pods))))
	return n
}

// ClassOf returns the class of a node: that of its label, or unlabelled if the label is missing or invalid.
func ClassOf(node *corev1.Node, unlabelled class.Class) class.Class {
	c, _ := class.OfNode(node, unlabelled) // an invalid label counts as no label
	return c
}
