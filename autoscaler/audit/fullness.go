package audit

import "supercargo.dev/supercargo/internal/packing"

// Fullness is how full nodes are, all of them together. Pods of DaemonSets and static pods count.
type Fullness struct {
	// Whole is the room for pods, Requested what they request.
	Whole, Requested packing.Size
	// Places is how many pods there may be, Pods how many there are.
	Places, Pods int64
	// Measured is how many of the nodes are measured, MeasuredWhole their room, and Used what is
	// used of them.
	Measured            int
	MeasuredWhole, Used packing.Size
}

func fullness(nodes []Node) Fullness {
	var f Fullness
	for i := range nodes {
		n := &nodes[i]
		f.Whole, f.Requested = plus(f.Whole, n.Whole), plus(f.Requested, n.Requested)
		f.Places += n.WholePods
		f.Pods += n.AllPods
		if n.Use != nil {
			f.Measured++
			f.MeasuredWhole, f.Used = plus(f.MeasuredWhole, n.Whole), plus(f.Used, *n.Use)
		}
	}
	return f
}

func plus(a, b packing.Size) packing.Size {
	return packing.Size{MilliCPU: a.MilliCPU + b.MilliCPU, MemoryBytes: a.MemoryBytes + b.MemoryBytes}
}

// Share is a part of a whole, 0 of nothing.
func Share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
