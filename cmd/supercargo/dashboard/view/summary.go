package view

import (
	corev1 "k8s.io/api/core/v1"
)

// Summary is the cluster in figures. Money is in dollars per hour.
type Summary struct {
	Nodes int `json:"nodes"`
	Ready int `json:"ready"`
	// Empty is how many have no pod but those of the system.
	Empty int `json:"empty"`
	// Pods is how many have a node, Pending how many have none.
	Pods    int `json:"pods"`
	Pending int `json:"pending"`
	// CPU and Memory are the shares of all nodes that pods request, from 0 to 1.
	CPU    float64 `json:"requestedCPU"`
	Memory float64 `json:"requestedMemory"`
	// Dollars is what the Priced nodes cost now.
	Dollars float64 `json:"dollars"`
	Priced  int     `json:"priced"`
	// Watts is what the Powered nodes are modelled to draw now.
	Watts   float64 `json:"watts"`
	Powered int     `json:"powered"`
	// CycleSeconds is the width of a time bin.
	CycleSeconds float64  `json:"cycleSeconds"`
	Audit        *Audit   `json:"audit,omitempty"`
	Notes        []string `json:"notes,omitempty"`
}

// Audit is what the same pods could cost, as `supercargo audit` finds it.
type Audit struct {
	// At is of which time it is, in seconds since 1970, and Took how long it took.
	At   int64   `json:"at"`
	Took float64 `json:"tookSeconds"`
	// Now is the bill then, Moved that after moves alone, Cheapest that of the cheapest machines
	// found and Bound what any machines cost that hold the pods.
	Now      float64 `json:"now"`
	Moved    float64 `json:"moved"`
	Cheapest float64 `json:"cheapest"`
	Bound    float64 `json:"bound"`
	// The Nodes are how many machines there are in each bill.
	NodesNow      int `json:"nodesNow"`
	NodesMoved    int `json:"nodesMoved"`
	NodesCheapest int `json:"nodesCheapest"`
	// Source says which prices machines are bought at.
	Source string   `json:"source"`
	Notes  []string `json:"notes,omitempty"`
	// Error says why there are no newer figures.
	Error string `json:"error,omitempty"`
}

// summary adds up what is on a page.
func summary(s *Snapshot, p *Page) Summary {
	sum := Summary{Nodes: len(p.Nodes), CycleSeconds: s.Cycle.Seconds(), Audit: s.Audit, Notes: s.Notes}
	var cpu, memory, requestedCPU, requestedMemory int64
	for i := range p.Nodes {
		n := &p.Nodes[i]
		cpu, memory = cpu+n.MilliCPU, memory+n.Memory
		requestedCPU, requestedMemory = requestedCPU+n.RequestedMilliCPU, requestedMemory+n.RequestedMemory
		sum.addNode(n)
	}
	sum.CPU, sum.Memory = share(requestedCPU, cpu), share(requestedMemory, memory)
	sum.Pending = countPending(s.Pods)
	return sum
}

func (s *Summary) addNode(n *Node) {
	s.Pods += len(n.Pods) + n.MorePods
	if n.Ready {
		s.Ready++
	}
	if n.Bin == 0 && !hasWork(n) {
		s.Empty++
	}
	if n.Dollars != nil {
		s.Dollars += *n.Dollars
		s.Priced++
	}
	if n.Watts != nil {
		s.Watts += *n.Watts
		s.Powered++
	}
}

// hasWork reports whether a pod is there that is not of the system.
func hasWork(n *Node) bool { return len(n.Pods) > 0 && n.Pods[0].Class != system }

func countPending(pods []*corev1.Pod) (n int) {
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && !ended(pod) {
			n++
		}
	}
	return n
}

func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
