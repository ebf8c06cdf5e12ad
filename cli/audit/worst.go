package audit

import (
	"cmp"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// mostWorst is the maximum length of [Result.Worst].
const mostWorst = 10

// Worst is a node that is little used for its price.
type Worst struct {
	Node         string         `json:"node"`
	InstanceType string         `json:"instanceType,omitempty"`
	CapacityType string         `json:"capacityType,omitempty"`
	PerHour      dollars.Amount `json:"perHour"`
	// IdlePerHour is the price of the room that no pod requests: the price times one minus Utilization.
	IdlePerHour dollars.Amount `json:"idlePerHour"`
	// Requested is how full it is, Used is how much of it is in use, nil if it is not measured, and Pods is the
	// number of pods without DaemonSet pods and static pods.
	Requested Shares  `json:"requested"`
	Used      *Shares `json:"used,omitempty"`
	Pods      int     `json:"pods"`
	// Utilization is the mean of the requested shares of CPU and memory, from 0 to 1.
	Utilization float64 `json:"utilization"`
	// Emptied reports whether moves alone empty it. Remedy describes what would empty it.
	Emptied bool   `json:"emptied"`
	Remedy  string `json:"remedy"`
}

// worst returns the priced nodes with the highest price of idle room, ties by name.
func (c *scene) worst(after moved) []Worst {
	all := []Worst{}
	for i := range c.nodes {
		n := &c.nodes[i]
		w := Worst{
			Node: n.Name, InstanceType: n.InstanceType, CapacityType: n.CapacityType, PerHour: dollars.Amount(n.MicroDollarsPerHour),
			Pods: len(n.Pods), Requested: sharesOf(n.Requested, n.Whole, 1),
		}
		w.Utilization = (min(1, w.Requested.CPU) + min(1, w.Requested.Memory)) / 2
		if n.Use != nil {
			w.Used = new(sharesOf(*n.Use, n.Whole, 1))
		}
		w.IdlePerHour = w.PerHour - n.share(n.Requested)
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b Worst) int { return cmp.Compare(b.IdlePerHour, a.IdlePerHour) })
	all = all[:min(len(all), mostWorst)]
	for i := range all {
		_, all[i].Emptied = slices.BinarySearch(after.emptied, all[i].Node)
		all[i].Remedy = c.remedy(&all[i], after)
	}
	return all
}

// remedy describes what would empty a node.
func (c *scene) remedy(w *Worst, after moved) string {
	at, _ := slices.BinarySearchFunc(c.nodes, w.Node, func(n Node, name string) int { return cmp.Compare(n.Name, name) })
	n := &c.nodes[at]
	held := heldOn(n)
	switch {
	case n.Goes:
		return "nothing: it is being deleted"
	case w.Emptied && w.Pods == 0 && n.Phase == cluster.Leaving:
		return "nothing: it is empty and accepts no pods, and can be released now"
	case w.Emptied && w.Pods == 0:
		return "nothing: it is empty and can be released now"
	case w.Emptied && n.Unready: // its kubelet ends no pods
		return fmt.Sprintf("deleting the node, which is not ready: %s %s room on others", plural.Part(w.Pods, w.Pods, "pod"), plural.Form(w.Pods, "has", "have"))
	case w.Emptied && w.Pods == 1:
		return "moving its pod to a node that has room"
	case w.Emptied:
		return fmt.Sprintf("moving its %d pods to nodes that have room", w.Pods)
	case n.Kept:
		return cmp.Or(n.KeptFor, n.Stays, "it must be kept")
	case held != "":
		return held
	}
	return c.lacks(n, after)
}

// lacks describes what would empty a node that stays although its pods may be moved.
func (c *scene) lacks(n *Node, after moved) string {
	at := slices.IndexFunc(after.state.Nodes, func(s cluster.Node) bool { return s.Name == n.Name })
	stays := &after.state.Nodes[at]
	pods := len(stays.Pods)
	out := unhoused(&after.state, at, func(*cluster.Node, *cluster.Pod) {})
	cramped := unhoused(&after.state, at, func(n *cluster.Node, p *cluster.Pod) { n.Class, p.Arch, p.Demands = class.Any, "", nil })
	switch {
	case stays.Incoming > 0:
		return "the end of the moves of pods to it"
	case pods > len(n.Pods):
		return fmt.Sprintf("nothing: it receives %s of nodes that are emptied", plural.Count(pods-len(n.Pods), "pod"))
	case out > 0 && cramped == 0:
		return fmt.Sprintf("fewer demands of %s: the nodes that stay have room, but do not admit %s", plural.Part(out, pods, "pod"), plural.Form(out, "it", "them"))
	case cramped < out:
		return fmt.Sprintf("room for %s on nodes that admit %s", plural.Part(out, pods, "pod"), plural.Form(out, "it", "them"))
	case out > 0:
		return fmt.Sprintf("room for %s on the nodes that stay", plural.Part(out, pods, "pod"))
	case pods == 0:
		return "nothing: it is empty, but the search did not get to it"
	}
	return fmt.Sprintf("moving %s: other nodes have room, but the search did not get to it", plural.Part(pods, pods, "pod"))
}

// unhoused returns how many pods of a node, given by its index, would be unschedulable on the others if all of them left
// now, after a change to each node and to each of these pods. A pod that moves with its state needs its architecture.
func unhoused(s *cluster.State, at int, change func(*cluster.Node, *cluster.Pod)) int {
	changed := *s
	changed.Nodes = slices.Clone(s.Nodes)
	for i := range changed.Nodes {
		change(&changed.Nodes[i], &cluster.Pod{})
	}
	n := &changed.Nodes[at]
	n.Pods = slices.Clone(n.Pods)
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Arch == "" && p.Ways.Has(cluster.Migrate) {
			p.Arch = n.Arch
		}
		change(n, p)
	}
	return len(fleetdecide.Unhoused(&changed, n.Name))
}

// heldOn describes how many pods of a node may not be moved, with the most frequent reason; "" if
// all may be moved.
func heldOn(n *Node) string {
	counts, first := map[string]int{}, map[string]string{}
	held := 0
	for i := range n.Pods {
		p := n.Pods[i]
		leave(&p, nil)
		if !p.Fixed {
			continue
		}
		held++
		if counts[p.Held]++; counts[p.Held] == 1 {
			first[p.Held] = p.Name
		}
	}
	if held == 0 {
		return ""
	}
	reason := ""
	for why := range counts {
		if reason == "" || counts[why] > counts[reason] || counts[why] == counts[reason] && why < reason {
			reason = why
		}
	}
	if held == 1 {
		return fmt.Sprintf("%s may not be moved, %s: %s", plural.Part(held, len(n.Pods), "pod"), first[reason], reason)
	}
	return fmt.Sprintf("%s may not be moved, such as %s: %s", plural.Part(held, len(n.Pods), "pod"), first[reason], reason)
}
