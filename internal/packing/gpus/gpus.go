// Package gpus decides which node a pod goes to where GPUs are at stake: a pod that requests GPUs to the node whose free
// GPUs lose least of their use for the pods that come, all others to nodes without GPUs if there are such.
//
// The first is fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC 2023): a free GPU is of no
// use for a pod if the node lacks the CPU, the memory or the number of GPUs that the pod needs, or if what is free of the
// GPU is less than the share that it needs. [Mix.Unusable] is what a node has of such GPUs, on average over the pods that
// are typical, and a pod goes where that grows least.
//
// Every function is pure and deterministic. Devices are those of one node, by their free thousandths.
package gpus

import (
	"cmp"
	"slices"
)

// Whole is one GPU in thousandths.
const Whole = 1000

// Request is what a pod requests.
type Request struct {
	MilliCPU, MemoryBytes int64
	// Milli is the GPUs in thousandths. Less than [Whole] is a share, which must be of one device; more is whole devices, rounded
	// up. 0 is none.
	Milli int64
}

// Devices returns how many devices the pod needs, and how much of each.
func (r Request) Devices() (count int, each int64) {
	switch {
	case r.Milli <= 0:
		return 0, 0
	case r.Milli < Whole:
		return 1, r.Milli
	}
	return int((r.Milli + Whole - 1) / Whole), Whole
}

// Node is the free room of a node.
type Node struct {
	MilliCPU, MemoryBytes int64
	// Devices are the free thousandths of each of its GPUs, from 0 to [Whole].
	Devices []int64
}

// Fits reports whether the node has the room, with each share on one device. Cost: O(devices).
func (n *Node) Fits(r Request) bool {
	if r.MilliCPU > n.MilliCPU || r.MemoryBytes > n.MemoryBytes {
		return false
	}
	count, each := r.Devices()
	for _, free := range n.Devices {
		if count == 0 {
			break
		}
		if free >= each {
			count--
		}
	}
	return count == 0
}

// Take takes the room of a pod from the node. A share is taken from the device with the least room among those that have
// enough, as device plugins that pack do, and the first of equals. If no device has enough, it is taken
// from those with the most room, which are then full. Cost: O(devices · devices of the pod).
func (n *Node) Take(r Request) {
	n.MilliCPU, n.MemoryBytes = n.MilliCPU-r.MilliCPU, n.MemoryBytes-r.MemoryBytes
	count, each := r.Devices()
	for ; count > 0; count-- {
		if at := tightest(n.Devices, each); at >= 0 {
			n.Devices[at] = max(0, n.Devices[at]-each)
		}
	}
}

// tightest returns the device with the least room among those with enough; if there is none, the one with the most, and -1
// without devices.
func tightest(devices []int64, each int64) int {
	best := -1
	for i, free := range devices {
		if best < 0 || better(free, devices[best], each) {
			best = i
		}
	}
	return best
}

func better(a, b, each int64) bool {
	if (a >= each) != (b >= each) {
		return a >= each
	}
	if a >= each {
		return a < b
	}
	return a > b
}

// Devices returns the free thousandths of the devices of a node with the given number of them and pods. Nothing in the API
// says on which device a share is, so it is assumed that the pods were placed largest first, each as in [Node.Take].
// Cost: O(pods · (log(pods) + devices)).
func Devices(count int, pods []Request) []int64 {
	n := Node{Devices: make([]int64, count)}
	for i := range n.Devices {
		n.Devices[i] = Whole
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b Request) int { return cmp.Compare(b.Milli, a.Milli) })
	for _, r := range pods {
		n.Take(r)
	}
	return n.Devices
}
