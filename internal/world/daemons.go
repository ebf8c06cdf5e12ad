package world

import (
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// daemon is a pod of a DaemonSet and the room that it takes on a machine.
type daemon struct {
	demands  *constraint.Pod
	size     packing.Size
	disk     int64 // ephemeral storage in bytes
	resident constraint.Resident
}

// toleratedByDaemons are the tolerations that the DaemonSet controller adds to its pods.
var toleratedByDaemons = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// daemonPod returns a pod of a DaemonSet as the controller creates it, with default requests and host ports.
func daemonPod(set *appsv1.DaemonSet) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, Labels: set.Spec.Template.Labels},
		Spec:       *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleratedByDaemons...)
	constraint.DefaultRequests(&pod.Spec)
	constraint.DefaultHostPorts(&pod.Spec)
	return pod
}

func (v *View) readDaemons() {
	v.daemonSets = map[daemonSet]constraint.Resident{}
	for i := range v.Daemons {
		set := &v.Daemons[i]
		for _, d := range v.daemon(set, daemonPod(set)) {
			v.daemons = append(v.daemons, d)
			v.daemonSets[daemonSet{set.Namespace, set.Name}] = d.resident
		}
	}
}

// daemonSet identifies a DaemonSet.
type daemonSet struct{ namespace, name string }

// resident returns a pod that belongs on every node as a resident of its node: the pod of its DaemonSet, which need not
// be compiled for each node, or a static pod that uses host ports. It reports whether there is one.
func (v *View) resident(pod *corev1.Pod) (constraint.Resident, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if r, is := v.daemonSets[daemonSet{pod.Namespace, owner.Name}]; is && owner.Kind == "DaemonSet" {
		return r, true
	}
	if !usesHostPorts(pod) {
		return constraint.Resident{}, false
	}
	demands, err := v.compiler.CompileSuccessor(pod)
	if err != nil {
		return constraint.Resident{}, false // not possible: the API server has accepted the pod
	}
	return v.compiler.Resident(demands, "pod "+PodName(pod)), true
}

func usesHostPorts(pod *corev1.Pod) bool {
	used := func(p corev1.ContainerPort) bool { return p.HostPort > 0 }
	uses := func(c corev1.Container) bool { return slices.ContainsFunc(c.Ports, used) }
	return slices.ContainsFunc(pod.Spec.Containers, uses) || slices.ContainsFunc(pod.Spec.InitContainers, uses)
}

// daemon returns a pod of a DaemonSet, or none if the API server has accepted an invalid template: its pods run nowhere.
// Admission may add to what the template requests, such as a LimitRange or a sidecar: the newest pod shows how much.
func (v *View) daemon(set *appsv1.DaemonSet, pod *corev1.Pod) []daemon {
	demands, err := v.compiler.Compile(pod)
	if err != nil {
		return nil
	}
	asks := askedOf(pod)
	size, _ := asks.sized(v.names)
	return []daemon{{demands: demands, size: size.Most(v.admitted(set)), disk: asks.disk, resident: v.compiler.Resident(demands, "DaemonSet "+set.Namespace+"/"+set.Name)}}
}

// admitted returns what the newest pod of a DaemonSet was created with; without a pod, what is remembered of it, else
// zero.
func (v *View) admitted(set *appsv1.DaemonSet) packing.Size {
	if set.UID == "" {
		return packing.Size{}
	}
	newest := v.successors.newest[set.UID]
	if newest == nil {
		return v.DaemonSizes.last(set, v.now)
	}
	size := v.size(newest)
	v.DaemonSizes.see(set, size, v.now)
	return size
}

// WithoutLabels returns the view as if DaemonSets did not refer to labels of nodes for which unknown returns true. It is
// for machines whose labels of that kind are unknown: they may run any of the DaemonSets.
func (v *View) WithoutLabels(unknown func(label string) bool) *View {
	other := *v
	other.daemons = nil
	for i := range v.Daemons {
		pod := daemonPod(&v.Daemons[i])
		ignoreLabels(&pod.Spec, unknown)
		other.daemons = append(other.daemons, v.daemon(&v.Daemons[i], pod)...)
	}
	return &other
}

// ignoreLabels removes what a pod demands of labels of nodes for which unknown returns true.
func ignoreLabels(spec *corev1.PodSpec, unknown func(label string) bool) {
	for label := range spec.NodeSelector {
		if unknown(label) {
			delete(spec.NodeSelector, label)
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		return
	}
	for i := range (*required).NodeSelectorTerms {
		t := &(*required).NodeSelectorTerms[i]
		was := len(t.MatchExpressions)
		t.MatchExpressions = slices.DeleteFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool { return unknown(e.Key) })
		if len(t.MatchExpressions) < was && empty(*t) {
			*required = nil // a term without requirements would match no node
			return
		}
	}
}

// Static returns the total requests of the static pods on one node and their number, each as the maximum over the given
// nodes. No object describes the static pods of a future machine, but machines of one kind run the same ones.
func (v *View) Static(nodes []string) (size packing.Size, pods int64) {
	for _, name := range nodes {
		var of packing.Size
		var n int64
		for _, pod := range v.onNode[name] {
			if !isStatic(pod) {
				continue
			}
			of = of.Plus(v.size(pod))
			n++
		}
		size = size.Most(of)
		pods = max(pods, n)
	}
	return size, pods
}

// isStatic reports whether a pod is the mirror pod of a static pod.
func isStatic(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return pod.Annotations[corev1.MirrorPodAnnotationKey] != "" && owner != nil && owner.Kind == "Node"
}

// Overhead returns the total requests of the DaemonSet pods on a machine, those for ephemeral storage in bytes, the number of
// these pods, and the pods.
func (v *View) Overhead(host *constraint.Host) (size packing.Size, disk, pods int64, residents []constraint.Resident) {
	for i := range v.daemons {
		if d := &v.daemons[i]; d.demands.Admits(host) == "" {
			size, disk = size.Plus(d.size), disk+d.disk
			pods++
			residents = append(residents, d.resident)
		}
	}
	return size, disk, pods, residents
}

// DaemonSizes remembers what the pods of DaemonSets requested after admission while no pod shows it: when the last
// machine is released, its pods are gone, and the next machine would be bought as if they were smaller. It forgets a
// size after an hour without such a pod, because what admission adds may have changed, and when the DaemonSet changes.
//
// The zero value remembers nothing yet; nil never does. It is safe for concurrent use.
type DaemonSizes struct {
	mu   sync.Mutex
	seen map[types.UID]daemonSize
}

// daemonSize is the size of a pod of a DaemonSet of a generation, and when there last was one.
type daemonSize struct {
	generation int64
	size       packing.Size
	at         time.Time
}

// daemonSizeKnownFor is how long a size is remembered without a pod.
const daemonSizeKnownFor = time.Hour

// see remembers the size of a pod of the DaemonSet.
func (d *DaemonSizes) see(set *appsv1.DaemonSet, size packing.Size, now time.Time) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.seen, func(_ types.UID, s daemonSize) bool { return now.Sub(s.at) >= daemonSizeKnownFor })
	if d.seen == nil {
		d.seen = map[types.UID]daemonSize{}
	}
	d.seen[set.UID] = daemonSize{set.Generation, size, now}
}

// last returns the last size of a pod of the DaemonSet; zero if none is remembered.
func (d *DaemonSizes) last(set *appsv1.DaemonSet, now time.Time) packing.Size {
	if d == nil {
		return packing.Size{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, is := d.seen[set.UID]; is && s.generation == set.Generation && now.Sub(s.at) < daemonSizeKnownFor {
		return s.size
	}
	return packing.Size{}
}
