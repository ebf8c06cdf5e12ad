package gpus

import (
	"cmp"
	"slices"
)

// maxKinds is the maximum number of kinds in a [Mix], so that a decision costs the same in every cluster. More do not place
// more of the pods of the trace in docs/benchmarks.md.
const maxKinds = 32

// Kind is a request and how much it counts.
type Kind struct {
	Request
	// Weight is 0 or more.
	Weight int64
}

// Mix are the pods that are typical for a cluster, by what they request.
type Mix []Kind

// MixOf returns the mix of pods, by the number of pods with each request. A request counts by the GPUs that all its pods request
// together, not by their number as in the paper: few pods with eight GPUs matter as much as many with a share of one, because as much
// is lost if they do not fit. The mix has the requests that count most, 32 at most; of equals the greater. Cost:
// O(n·log n).
func MixOf(pods map[Request]int64) Mix {
	m := make(Mix, 0, len(pods))
	for r, n := range pods {
		if n > 0 && r.Milli > 0 {
			m = append(m, Kind{Request: r, Weight: n * r.Milli})
		}
	}
	slices.SortFunc(m, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Milli, a.Milli), cmp.Compare(b.MilliCPU, a.MilliCPU), cmp.Compare(b.MemoryBytes, a.MemoryBytes))
	})
	return m[:min(len(m), maxKinds)]
}

// weight returns the sum of all weights.
func (m Mix) weight() (sum int64) {
	for i := range m {
		sum += m[i].Weight
	}
	return sum
}

// Unusable returns the thousandths of GPUs that are free on the node and that a pod of the mix cannot use, on average by
// weight: all of them if the node does not fit the pod, otherwise the devices that have less than it needs of one. A pod
// without GPUs uses none. The result is 0 for an empty mix. Cost: O(kinds · devices).
func (m Mix) Unusable(n *Node) float64 {
	weight := m.weight()
	if weight == 0 {
		return 0
	}
	return float64(m.unusable(n)) / float64(weight)
}

// unusable returns the sum over the kinds.
func (m Mix) unusable(n *Node) (sum int64) {
	var free int64
	for _, d := range n.Devices {
		free += d
	}
	if free == 0 {
		return 0
	}
	for i := range m {
		sum += m[i].Weight * m[i].unusable(n, free)
	}
	return sum
}

// unusable returns the thousandths of the node, of which so many are free, that the pod cannot use.
func (r Request) unusable(n *Node, free int64) int64 {
	count, each := r.Devices()
	if count == 0 || r.MilliCPU > n.MilliCPU || r.MemoryBytes > n.MemoryBytes {
		return free
	}
	var small int64
	for _, d := range n.Devices {
		if d < each {
			small += d
		} else {
			count--
		}
	}
	if count > 0 {
		return free
	}
	return small
}

// Growth returns by how much [Mix.Unusable] grows if the node takes the pod, times the weight of the mix. It is negative
// if the pod uses more of what others cannot use than it leaves unusable.
func (m Mix) Growth(n *Node, r Request) int64 {
	var devices [16]int64
	after := Node{MilliCPU: n.MilliCPU, MemoryBytes: n.MemoryBytes, Devices: append(devices[:0], n.Devices...)}
	after.Take(r)
	return m.unusable(&after) - m.unusable(n)
}
