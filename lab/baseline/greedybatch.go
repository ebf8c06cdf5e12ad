package baseline

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// standing is an existing machine as greedyBatch sees it.
type standing struct {
	// name is unique among the nodes.
	name string
	// capacity is the node's allocatable resources, including those in use.
	capacity packing.Size
	// maxPods and arch are as for [cluster.Flavor].
	maxPods *int64
	arch    string
	// remaining is the remaining runtime of the longest batch pod on the node, or 0 if it has none.
	remaining time.Duration
}

// greedyBatch buys machines for batch pods (HTAS, algorithm 4). It first counts on the nodes in
// time bin 0: their jobs end within one scaling cycle, before a new machine would be of much use.
// It buys nothing if those nodes are enough.
//
// The paper subtracts the capacity of these nodes from the totals. Here the pods are packed into
// the nodes' full capacity, as if the present jobs had ended, in the order of
// [packing.LongestFirst], each on the first node of [packing.CompareTimeBin]. Pods that fit wait
// ([purchase.Assignment].Waits). [purchase.Greedy] buys for the others in the order of
// [purchase.Batch].
//
// Nodes in other bins are ignored: the scheduler would already have used room on them. A cycle that
// is not positive puts every node in bin 0.
func greedyBatch(pods []purchase.Pod, nodes []standing, cycle time.Duration, flavors []cluster.Flavor, opts purchase.GreedyOptions) purchase.Plan {
	var rooms []freeing
	for _, n := range nodes {
		if packing.BinOf(n.remaining, cycle) == 0 {
			rooms = append(rooms, newFreeing(n))
		}
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b purchase.Pod) int { return packing.LongestFirst(a.Item, b.Item) })
	var left []purchase.Pod
	var waiting []purchase.Assignment
	for _, pod := range pods {
		best := bestRoom(rooms, pod, cycle)
		if best < 0 {
			left = append(left, pod)
			continue
		}
		n := &rooms[best]
		n.Free = n.Free.Minus(pod.Size)
		n.Remaining = max(n.Remaining, pod.Runtime)
		n.pods++
		waiting = append(waiting, purchase.Assignment{Pod: pod.Name, Machine: n.Name, Waits: true})
	}
	opts.Order = purchase.Batch
	plan := purchase.Greedy(left, flavors, opts)
	plan.Assignments = append(plan.Assignments, waiting...)
	slices.SortFunc(plan.Assignments, func(a, b purchase.Assignment) int { return cmp.Compare(a.Pod, b.Pod) })
	return plan
}

// bestRoom returns the index of the best node for the pod, or -1 if none fits.
func bestRoom(rooms []freeing, pod purchase.Pod, cycle time.Duration) int {
	prefer := packing.CompareTimeBin(pod.Runtime, cycle)
	best := -1
	for i := range rooms {
		if rooms[i].holds(pod) && (best < 0 || prefer(rooms[i].Node, rooms[best].Node) < 0) {
			best = i
		}
	}
	return best
}

// freeing is a node in bin 0 as if its jobs had ended.
type freeing struct {
	packing.Node
	maxPods *int64
	pods    int64
	arch    string
}

func newFreeing(n standing) freeing {
	return freeing{
		Node:    packing.Node{Name: n.name, Free: n.capacity, Remaining: n.remaining},
		maxPods: n.maxPods, arch: n.arch,
	}
}

func (f freeing) holds(p purchase.Pod) bool {
	return p.Size.MilliCPU >= 0 && p.Size.MemoryBytes >= 0 && (p.Arch == "" || p.Arch == f.arch) &&
		p.Size.Fits(f.Free) && (f.maxPods == nil || f.pods < *f.maxPods)
}
