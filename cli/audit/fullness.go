package audit

import "supercargo.dev/supercargo/internal/packing"

// Shares are fractions of the room for pods of some nodes, from 0 to 1. They include DaemonSet pods and static pods.
type Shares struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	// Pods is the share of the maximum number of pods; 0 for usage.
	Pods float64 `json:"pods,omitempty"`
	// Nodes is the number of nodes counted.
	Nodes int `json:"nodes"`
}

// fullness returns how much of nodes pods request, and how much of those that are measured is in use; nil if none is.
func fullness(nodes []Node) (requested Shares, used *Shares) {
	var whole, asked, measured, use packing.Size
	var places, pods int64
	counted := 0
	for i := range nodes {
		n := &nodes[i]
		whole, asked = plus(whole, n.Whole), plus(asked, n.Requested)
		places, pods = places+n.WholePods, pods+n.AllPods
		if n.Use != nil {
			counted++
			measured, use = plus(measured, n.Whole), plus(use, *n.Use)
		}
	}
	requested = sharesOf(asked, whole, len(nodes))
	requested.Pods = Share(pods, places)
	if counted > 0 {
		used = new(sharesOf(use, measured, counted))
	}
	return requested, used
}

func sharesOf(part, whole packing.Size, nodes int) Shares {
	return Shares{CPU: Share(part.MilliCPU, whole.MilliCPU), Memory: Share(part.MemoryBytes, whole.MemoryBytes), Nodes: nodes}
}

func plus(a, b packing.Size) packing.Size {
	return packing.Size{MilliCPU: a.MilliCPU + b.MilliCPU, MemoryBytes: a.MemoryBytes + b.MemoryBytes}
}

// Share returns part divided by whole; 0 if whole is not positive.
func Share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
