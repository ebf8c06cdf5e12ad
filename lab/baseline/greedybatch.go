package baseline

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// standing is a machine that is there already, as greedyBatch looks at it.
type standing struct {
	// name is unique among the nodes.
	name string
	// capacity is what pods can use of the node, whether it is used now or not.
	capacity packing.Size
	// maxPods and arch are as for [cluster.Flavor].
	maxPods *int64
	arch    string
	// remaining is how long the longest batch pod on the node will still run: 0
	// when it has none.
	remaining time.Duration
}

// greedyBatch buys machines for batch pods (HTAS, algorithm 4): it first counts
// on the nodes in time bin 0, whose jobs end within one scaling cycle, before a
// new machine would be of much use, and buys nothing if they are enough.
//
// The paper subtracts their capacity from the totals. Here the pods are packed
// into the nodes' full capacity in the order of
// [packing.LongestFirst], each on the first node of [packing.CompareTimeBin], as if their present jobs had ended; those
// that fit wait ([planner.Assignment].Waits), and [planner.Greedy] buys in the order of
// [planner.Batch] for those left over.
//
// Nodes in other bins are not looked at: room on them would have been used
// already. A cycle that is not positive puts every node in bin 0.
func greedyBatch(pods []planner.Pod, nodes []standing, cycle time.Duration, flavors []cluster.Flavor, opts planner.Options) planner.Plan {
	var rooms []freeing
	for _, n := range nodes {
		if packing.BinOf(n.remaining, cycle) == 0 {
			rooms = append(rooms, newFreeing(n))
		}
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b planner.Pod) int { return packing.LongestFirst(a.Item, b.Item) })
	var left []planner.Pod
	var waiting []planner.Assignment
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
		waiting = append(waiting, planner.Assignment{Pod: pod.Name, Machine: n.Name, Waits: true})
	}
	opts.Order = planner.Batch
	plan := planner.Greedy(left, flavors, opts)
	plan.Assignments = append(plan.Assignments, waiting...)
	slices.SortFunc(plan.Assignments, func(a, b planner.Assignment) int { return cmp.Compare(a.Pod, b.Pod) })
	return plan
}

// bestRoom returns the place of the room that a pod takes, -1 if none holds it.
func bestRoom(rooms []freeing, pod planner.Pod, cycle time.Duration) int {
	prefer := packing.CompareTimeBin(pod.Runtime, cycle)
	best := -1
	for i := range rooms {
		if rooms[i].holds(pod) && (best < 0 || prefer(rooms[i].Node, rooms[best].Node) < 0) {
			best = i
		}
	}
	return best
}

// freeing is a node of bin 0 as if its jobs had ended.
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

func (f freeing) holds(p planner.Pod) bool {
	return p.Size.MilliCPU >= 0 && p.Size.MemoryBytes >= 0 && (p.Arch == "" || p.Arch == f.arch) &&
		p.Size.Fits(f.Free) && (f.maxPods == nil || f.pods < *f.maxPods)
}
