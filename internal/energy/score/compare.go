package score

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/energy/profile"
	"supercargo.dev/supercargo/internal/energy/tariff"
)

// SizeOf returns what a pod requests.
func SizeOf(pod *corev1.Pod) profile.Size {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return profile.Size{MilliCPU: requests.Cpu().MilliValue(), MemoryBytes: requests.Memory().Value()}
}

// Node is what a score depends on besides the pod.
type Node struct {
	Name, MachineType string
	// Zone is where it is, empty if that is not known. Scores do not depend on it but by Price.
	Zone string
	// Governor is the CPU governor that it runs under, empty if that is not known.
	Governor string
	// Price is what a kWh costs where the node is, if prices count.
	Price tariff.Price
	// Idle is true for a machine that does nothing else, when that counts.
	Idle bool
}

// NodesFor returns the nodes of a cluster as a score for a pod sees them, in their order. price
// tells what a kWh costs in a zone. A node is idle when no pod is on it but the pod itself, those
// that have ended, and those that every node has.
func NodesFor(pod *corev1.Pod, nodes []corev1.Node, pods []corev1.Pod, price func(zone string) tariff.Price) []Node {
	busy := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if p.UID != pod.UID && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && !class.EveryNode(p) {
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

// Line is a node's score and why.
type Line struct {
	Node   Node
	Option Option
	Result Result
}

// Doubts returns the reasons why the node's predictions are not trusted in full.
func (l Line) Doubts() profile.Doubt { return l.Option.Energy.Doubts | l.Option.Runtime.Doubts }

// Compare scores nodes for a pod of the given size as the scheduler does, with reasons, the
// best first and nodes of one score by name.
func Compare(h float64, size profile.Size, nodes []Node, machines profile.Set, now time.Time) []Line {
	// Options are kinds of nodes, as in the scheduler: means do not depend on how many
	// nodes there are of each.
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
