package score

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// SizeOf returns the requests of a pod.
func SizeOf(pod *corev1.Pod) profile.Size {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return profile.Size{MilliCPU: requests.Cpu().MilliValue(), MemoryBytes: requests.Memory().Value()}
}

// Node holds what a score depends on besides the pod.
type Node struct {
	Name, MachineType string
	// Zone is the node's zone, empty if unknown. Scores depend on it only through Price.
	Zone string
	// Governor is the node's CPU governor, empty if unknown.
	Governor string
	// Price is the price of a kWh at the node, if prices count.
	Price tariff.Price
	// Idle is true for a machine without other work, if that counts.
	Idle bool
}

// NodesFor returns the nodes of a cluster as input of a score for the pod, in order. price returns the price of a kWh
// in a zone. A node is idle if it has no pods other than the pod itself, finished pods, and DaemonSet or static pods.
func NodesFor(pod *corev1.Pod, nodes []corev1.Node, pods []*corev1.Pod, price func(zone string) tariff.Price) []Node {
	busy := map[string]bool{}
	for _, p := range pods {
		if p.UID != pod.UID && !class.Ended(p) && !class.EveryNode(p) {
			busy[p.Spec.NodeName] = true
		}
	}
	compared := make([]Node, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		zone := n.Labels[corev1.LabelTopologyZone]
		compared[i] = Node{Name: n.Name, MachineType: MachineType(n.Labels), Zone: zone, Governor: Governor(n.Annotations), Idle: !busy[n.Name], Price: price(zone)}
	}
	return compared
}

// Line is a node's score and its reasons.
type Line struct {
	Node   Node
	Option Option
	Result Result
}

// Doubts returns the reasons why the node's predictions are not fully trusted.
func (l Line) Doubts() profile.Doubt { return l.Option.Energy.Doubts | l.Option.Runtime.Doubts }

// Compare scores nodes for a pod of the given size as the scheduler does, with reasons. The result is sorted by
// descending score, then by name.
func Compare(h float64, size profile.Size, nodes []Node, machines profile.Set, now time.Time) []Line {
	// Options are kinds of nodes, as in the scheduler, so that means do not depend on the number of nodes of each kind.
	type kind struct {
		machineType, governor string
		idle                  bool
		price                 tariff.Price
	}
	of := func(n *Node) kind { return kind{n.MachineType, n.Governor, n.Idle, n.Price} }
	at := map[kind]int{}
	var options []Option
	for i := range nodes {
		n := &nodes[i]
		k := of(n)
		if _, met := at[k]; !met {
			at[k] = len(options)
			o := Predict(machines[n.MachineType], n.Governor, size, n.Idle, now)
			o.Price = n.Price
			options = append(options, o)
		}
	}
	results := make([]Result, len(options))
	Rank(h, options, results)
	lines := make([]Line, len(nodes))
	for i, n := range nodes {
		k := at[of(&n)]
		lines[i] = Line{n, options[k], results[k]}
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Result.Score, a.Result.Score), cmp.Compare(a.Node.Name, b.Node.Name))
	})
	return lines
}
