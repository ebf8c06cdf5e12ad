// Package history describes the state of the cluster as series: its nodes, their machine types, capacity, free room, and
// expected finish. They are the data of the Resource Profiler of HTAS (Zhong and Buyya, section 4.1, table 3), which keeps
// them in a database of its own.
//
// They include what each pod requests on which node, so that a node's energy can be divided among its pods if no other
// source measures it.
//
// The package names and computes the series; recorder, in the folder below, writes them. What reads them, such as the
// command line, needs only their names.
package history

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/runtimes"
)

// The names of the series. All but the last have the labels node and machine_type. The first
// four also have the label resource; they are in cores for cpu, in bytes for memory and
// storage, and a count for others.
const (
	// Capacity is the capacity of the node.
	Capacity = "supercargo_node_capacity"
	// Allocatable is the part of it that pods can request.
	Allocatable = "supercargo_node_allocatable"
	// Requested is the sum of the requests of the node's pods that have not ended.
	Requested = "supercargo_node_requested"
	// Available is allocatable minus requested, at least 0; it is 0 on a node that is not
	// Ready or is cordoned.
	Available = "supercargo_node_available"
	// Pods is the number of pods that have not ended.
	Pods = "supercargo_node_pods"
	// Ready is 1 on a node that is Ready and not cordoned, else 0.
	Ready = "supercargo_node_ready"
	// Finish is the latest expected finish of the node's pods, in seconds since 1970. The
	// remaining runtime is Finish minus time(). A node whose pods have no expected finish,
	// such as one without batch pods, has no such series.
	Finish = "supercargo_node_finish_timestamp_seconds"
	// PodRequested is the CPU request of a pod that is bound to a node and has not ended, in
	// cores; 0 if it requests none. Its labels are namespace, pod, node, resource (cpu), and
	// owner_kind and owner_name of the pod's controller.
	PodRequested = "supercargo_pod_requested"
)

// Key is the labels of a series.
type Key struct {
	// Name is the name of the metric.
	Name, Node, MachineType string
	// Resource is empty for series without a resource.
	Resource string
	// Namespace, Pod, OwnerKind and OwnerName are empty except for series of pods.
	Namespace, Pod, OwnerKind, OwnerName string
}

// State is the values of all series at a moment.
type State map[Key]float64

// Of returns the state of a cluster. It ignores pods that are not bound, have ended, or are
// bound to a node that is not in nodes. It does not modify its arguments. Cost: O(nodes +
// pods).
func Of(nodes []*corev1.Node, pods []*corev1.Pod) State {
	on := map[string]*load{}
	for _, node := range nodes {
		on[node.Name] = &load{requested: corev1.ResourceList{}}
	}
	for _, pod := range pods {
		if l := on[pod.Spec.NodeName]; l != nil && !class.Ended(pod) {
			l.add(pod)
		}
	}
	state := State{}
	for _, node := range nodes {
		state.add(node, on[node.Name])
	}
	return state
}

// OfPods returns the requests of each pod, or nil if there are more than most pods: with some
// of the pods left out, the others would be charged the energy of all. It ignores pods that
// are not bound or have ended. It does not modify its argument. Cost: O(pods).
func OfPods(pods []*corev1.Pod, most int) State {
	state := State{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || class.Ended(pod) {
			continue
		}
		k := Key{Name: PodRequested, Node: pod.Spec.NodeName, Resource: string(corev1.ResourceCPU), Namespace: pod.Namespace, Pod: pod.Name}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			k.OwnerKind, k.OwnerName = owner.Kind, owner.Name
		}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		state[k] = number(*requests.Cpu())
		if len(state) > most {
			return nil
		}
	}
	return state
}

// load is the sum over the pods on a node.
type load struct {
	requested corev1.ResourceList
	pods      int
	finish    float64 // seconds since 1970; 0 if no pod has an expected finish
}

func (l *load) add(pod *corev1.Pod) {
	l.pods++
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		sum := l.requested[name]
		sum.Add(q)
		l.requested[name] = sum
	}
	if finish, ok := runtimes.Written(pod); ok {
		l.finish = max(l.finish, float64(finish.UnixMilli())/1000)
	}
}

// add adds the series of a node.
func (s State) add(node *corev1.Node, l *load) {
	of := Key{Node: node.Name, MachineType: score.MachineType(node.Labels)}
	put := func(name, resource string, v float64) {
		k := of
		k.Name, k.Resource = name, resource
		s[k] = v
	}
	open := takesPods(node)
	for name, q := range node.Status.Capacity {
		put(Capacity, string(name), number(q))
	}
	for _, name := range slices.Sorted(maps.Keys(node.Status.Allocatable)) {
		allocatable, requested := node.Status.Allocatable[name], l.requested[name]
		if name == corev1.ResourcePods {
			requested = *resource.NewQuantity(int64(l.pods), resource.DecimalSI)
		}
		available := allocatable.DeepCopy()
		available.Sub(requested)
		if !open || available.Sign() < 0 {
			available = resource.Quantity{}
		}
		put(Allocatable, string(name), number(allocatable))
		put(Requested, string(name), number(requested))
		put(Available, string(name), number(available))
	}
	put(Pods, "", float64(l.pods))
	put(Ready, "", map[bool]float64{true: 1}[open])
	if l.finish > 0 {
		put(Finish, "", l.finish)
	}
}

func number(q resource.Quantity) float64 { return q.AsApproximateFloat64() }

// takesPods reports whether a node is Ready and not cordoned.
func takesPods(node *corev1.Node) bool {
	return !node.Spec.Unschedulable && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
