package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// Endless is the time bin of a service, and of a node with a service.
const Endless = -1

// Unknown is the time bin of a batch pod without an expected finish, which Supercargo's scheduler did
// not bind.
const Unknown = -2

// mostPods is the maximum number of pods shown on a node.
const mostPods = 300

// Node is a node with its pods.
type Node struct {
	Name  string `json:"name"`
	Type  string `json:"type,omitempty"`
	Fleet string `json:"fleet,omitempty"`
	// Pool is its NodeFleet, node group, node pool or MachineDeployment. CapacityType is as in
	// [audit.StatedCapacityType]. They and Zone are empty if unknown.
	Pool         string `json:"pool,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// Class is the class of pods that it accepts: batch, service or any.
	Class string `json:"class"`
	// Dollars is the price per hour; nil if it is unknown, for the reason in Unpriced.
	Dollars *float64 `json:"dollars,omitempty"`
	// DollarsPerMonth is Dollars for the mean number of hours in a month.
	DollarsPerMonth float64 `json:"dollarsPerMonth,omitempty"`
	Unpriced        string  `json:"unpriced,omitempty"`
	// Watts is the modelled power; nil if its machine type is unknown.
	Watts *float64 `json:"watts,omitempty"`
	// MilliCPU and Memory are allocatable, and the others are the sums of requests. Memory is in bytes.
	MilliCPU          int64 `json:"cpu"`
	Memory            int64 `json:"memory"`
	RequestedMilliCPU int64 `json:"requestedCPU"`
	RequestedMemory   int64 `json:"requestedMemory"`
	// Ready and Cordoned are as in kubectl. Emptying is the owner of its drain.
	Ready    bool   `json:"ready"`
	Cordoned bool   `json:"cordoned,omitempty"`
	Emptying string `json:"emptying,omitempty"`
	// Created is when it was created, in seconds since 1970.
	Created int64 `json:"created"`
	// Bin is the latest time bin of its pods, which can be Endless or Unknown; 0 if it is empty.
	Bin int64 `json:"bin"`
	// Pods are sorted in the order of display. MorePods is the number of pods beyond the first 300.
	Pods     []Pod `json:"pods"`
	MorePods int   `json:"morePods,omitempty"`
}

// Pod is a pod on a node.
type Pod struct {
	Name string `json:"name"` // namespace/name
	// Class is batch, service or, for DaemonSet pods and static pods, system.
	Class    string `json:"class"`
	Bin      int64  `json:"bin"`
	MilliCPU int64  `json:"cpu"`
	Memory   int64  `json:"memory"`
	// Finish is the expected finish, in seconds since 1970; 0 if unknown.
	Finish int64 `json:"finish,omitempty"`
	// State is Starting, Leaving or empty for a running pod.
	State string `json:"state,omitempty"`
}

// system is the class of pods that run on every node.
const system = "system"

// nodes returns the nodes, sorted by name.
func nodes(s *Snapshot, now time.Time) []Node {
	on := make(map[string][]*corev1.Pod, len(s.Nodes))
	for _, pod := range s.Pods {
		if pod.Spec.NodeName != "" && !class.Ended(pod) {
			on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
		}
	}
	power := newPower(s.Profiles)
	all := make([]Node, 0, len(s.Nodes))
	for _, node := range s.Nodes {
		n := nodeOf(node)
		n.addPods(on[node.Name], now, s.Cycle)
		if price, is := s.Prices[node.Name]; is && price.Unpriced == "" {
			n.Dollars = new(dollars.Of(price.MicroDollarsPerHour))
			n.DollarsPerMonth = audit.HoursPerMonth * *n.Dollars
		} else {
			n.Unpriced = price.Unpriced
		}
		n.Watts = power.of(node, n.RequestedMilliCPU)
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func nodeOf(node *corev1.Node) Node {
	takes, _ := class.OfNode(node, class.Any)
	emptying, _, _ := strings.Cut(node.Annotations[v1alpha1.AnnotationDraining], "/")
	allocatable := node.Status.Allocatable
	return Node{
		Name: node.Name, Type: machineType(node), Fleet: node.Labels[v1alpha1.LabelFleet], Class: string(takes),
		Pool: nodePool(node), Zone: zoneOf(node), CapacityType: audit.StatedCapacityType(node.Labels),
		MilliCPU: allocatable.Cpu().MilliValue(), Memory: allocatable.Memory().Value(),
		Ready: ready(node), Cordoned: node.Spec.Unschedulable, Emptying: emptying, Created: seconds(node.CreationTimestamp.Time),
	}
}

// machineType returns the instance type of a node, or else its machine type.
func machineType(node *corev1.Node) string {
	return cmp.Or(node.Labels[corev1.LabelInstanceTypeStable], node.Labels[v1alpha1.LabelMachineType])
}

// poolLabels are the labels whose value is the name of a node's pool, that of Supercargo first.
var poolLabels = []string{
	v1alpha1.LabelFleet, "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool", "agentpool", "doks.digitalocean.com/node-pool", "kops.k8s.io/instancegroup",
}

// nodePool returns the NodeFleet, node group or node pool of a node, or else its MachineDeployment; empty if none is known.
func nodePool(node *corev1.Node) string {
	for _, label := range poolLabels {
		if name := node.Labels[label]; name != "" {
			return name
		}
	}
	// The name of a MachineSet is that of its MachineDeployment plus a suffix.
	set := node.Annotations["cluster.x-k8s.io/owner-name"]
	if dash := strings.LastIndex(set, "-"); dash > 0 && node.Annotations["cluster.x-k8s.io/owner-kind"] == "MachineSet" {
		return set[:dash]
	}
	return ""
}

// zoneOf returns the zone of a node; empty if unknown.
func zoneOf(node *corev1.Node) string {
	return cmp.Or(node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelFailureDomainBetaZone])
}

func ready(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// addPods adds pods in the order of display: services, then batch pods with the latest finish first,
// then system pods; ties by name. The sums include all pods.
func (n *Node) addPods(pods []*corev1.Pod, now time.Time, cycle time.Duration) {
	n.Pods = make([]Pod, 0, len(pods))
	for _, pod := range pods {
		p := podOf(pod, now, cycle)
		n.RequestedMilliCPU += p.MilliCPU
		n.RequestedMemory += p.Memory
		if p.Class != system {
			n.Bin = later(n.Bin, p.Bin)
		}
		n.Pods = append(n.Pods, p)
	}
	slices.SortFunc(n.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(rank[a.Class], rank[b.Class]), cmp.Compare(b.Bin, a.Bin), cmp.Compare(b.Finish, a.Finish), cmp.Compare(a.Name, b.Name))
	})
	if more := len(n.Pods) - mostPods; more > 0 {
		n.Pods, n.MorePods = n.Pods[:mostPods], more
	}
}

// later returns the later of two time bins: Endless is the latest, then Unknown.
func later(a, b int64) int64 {
	for _, bin := range []int64{Endless, Unknown} {
		if a == bin || b == bin {
			return bin
		}
	}
	return max(a, b)
}

// rank is the order in which classes are shown.
var rank = map[string]int{string(class.Service): 0, string(class.Batch): 1, system: 2}

func podOf(pod *corev1.Pod, now time.Time, cycle time.Duration) Pod {
	cpu, memory, _ := constraint.Requests(pod)
	of, _ := class.OfPod(pod)
	p := Pod{Name: pod.Namespace + "/" + pod.Name, Class: string(of), Bin: Endless, MilliCPU: cpu, Memory: memory}
	switch {
	case pod.DeletionTimestamp != nil:
		p.State = "Leaving"
	case pod.Status.Phase == corev1.PodPending:
		p.State = "Starting"
	}
	switch finish, known := runtimes.Written(pod); {
	case class.EveryNode(pod):
		p.Class = system
	case of != class.Batch:
	case !known:
		p.Bin = Unknown
	default:
		p.Finish, p.Bin = seconds(finish), packing.BinOf(finish.Sub(now), cycle)
	}
	return p
}
