// Package history keeps what the cluster was like, as series: what nodes there were, of
// which machine types, what they could hold, what was free, and how long they were expected
// to be busy. It is the Resource Profiler of HTAS (Zhong and Buyya, section 4.1, table 3),
// which keeps the same in a database of its own.
//
// It also keeps what each pod requests of which node, so that a node's energy can be shared
// out among its pods where nobody else measures.
//
// series.go says what the series are and is pure; recorder.go writes them, when pods start,
// end or move and when machines come or go.
package history

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"supercargo.dev/supercargo/internal/energy/score"
	"supercargo.dev/supercargo/internal/runtimes"
)

// The names of the series. All but the last have the labels node and machine_type; the
// first four have the label resource too, and are in cores for cpu, in bytes for memory and storage, and in
// pieces for others.
const (
	// Capacity is what the machine has.
	Capacity = "supercargo_node_capacity"
	// Allocatable is what pods may have of it.
	Allocatable = "supercargo_node_allocatable"
	// Requested is what the pods there request that have not ended.
	Requested = "supercargo_node_requested"
	// Available is what further pods may request: allocatable less requested, and nothing
	// on a node that is not Ready or takes no pods.
	Available = "supercargo_node_available"
	// Pods is how many pods there are that have not ended.
	Pods = "supercargo_node_pods"
	// Ready is 1 on a node that is Ready and takes pods, else 0.
	Ready = "supercargo_node_ready"
	// Finish is when the last batch pod there is expected to end, in seconds since 1970.
	// The remaining runtime is that less time(). It is not there where no pod has an
	// expected end: on nodes without batch pods.
	Finish = "supercargo_node_finish_timestamp_seconds"
	// PodRequested is what a pod that is bound to a node and has not ended requests, in
	// cores: 0 where it requests nothing. Its labels are namespace, pod, node, resource,
	// which is cpu, and owner_kind and owner_name of the controller that made the pod.
	PodRequested = "supercargo_pod_requested"
)

// Key is the labels of a series.
type Key struct {
	// Name is that of the metric.
	Name, Node, MachineType string
	// Resource is empty where there is none.
	Resource string
	// Namespace, Pod, OwnerKind and OwnerName are empty but for series of pods.
	Namespace, Pod, OwnerKind, OwnerName string
}

// State is the values of all series at a moment.
type State map[Key]float64

// Of returns the state of a cluster. Pods that are bound to no node or have ended do not
// count, and those bound to a node that is not among the nodes are left out. The arguments
// are not changed. Cost: O(nodes + pods).
func Of(nodes []*corev1.Node, pods []*corev1.Pod) State {
	on := map[string]*load{}
	for _, node := range nodes {
		on[node.Name] = &load{requested: corev1.ResourceList{}}
	}
	for _, pod := range pods {
		if l := on[pod.Spec.NodeName]; l != nil && !ended(pod) {
			l.add(pod)
		}
	}
	state := State{}
	for _, node := range nodes {
		state.add(node, on[node.Name])
	}
	return state
}

// OfPods returns what each pod has of the cluster, of at most so many: where there are more
// it returns nothing, since a part of them would have the energy of all. Pods that are bound
// to no node or have ended do not count. The argument is not changed. Cost: O(pods).
func OfPods(pods []*corev1.Pod, most int) State {
	state := State{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || ended(pod) {
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

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// load is what is on a node.
type load struct {
	requested corev1.ResourceList
	pods      int
	finish    float64 // seconds since 1970; 0 if no pod tells
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
