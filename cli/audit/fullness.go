package audit

import "supercargo.dev/supercargo/internal/packing"

// Fullness is the total over some nodes. It includes DaemonSet pods and static pods.
type Fullness struct {
	// Whole is the room for pods, and Requested is the sum of their requests.
	Whole, Requested packing.Size
	// Places is the maximum number of pods, and Pods is their number.
	Places, Pods int64
	// Measured is the number of measured nodes, MeasuredWhole is their room, and Used is their
	// usage.
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

// Share returns part divided by whole; 0 if whole is not positive.
func Share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
