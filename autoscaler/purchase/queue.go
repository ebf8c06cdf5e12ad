package purchase

import (
	"math"

	"supercargo.dev/supercargo/internal/packing"
)

// queues are the pending pods in packing order, once for each CPU architecture among the flavors: a pod is in the
// queues of the machines on which it runs.
type queues struct {
	// removed reports, by pending pod, whether a machine has taken it.
	removed  []bool
	byArch   map[string]*queue
	ofFlavor []*queue // parallel to the flavors
}

func newQueues(pending []Pod, flavors []Flavor) queues {
	q := queues{removed: make([]bool, len(pending)), byArch: map[string]*queue{}}
	for _, f := range flavors {
		if q.byArch[f.Arch] == nil {
			q.byArch[f.Arch] = newQueue(pending, f.Arch)
		}
		q.ofFlavor = append(q.ofFlavor, q.byArch[f.Arch])
	}
	return q
}

// pack returns the pods that one machine of flavor number i takes, in packing order, and the sum of their requests.
func (q queues) pack(i int, f Flavor, pending []Pod) ([]int, packing.Size) {
	var members []int
	free := f.Size
	for at := -1; f.Takes(len(members) + 1); {
		at = q.ofFlavor[i].next(at+1, free)
		if at < 0 {
			break
		}
		members = append(members, at)
		free = free.Minus(pending[at].Size)
	}
	return members, f.Size.Minus(free)
}

// remove removes the pod at an index from all queues.
func (q queues) remove(at int) {
	q.removed[at] = true
	for _, one := range q.byArch {
		one.remove(at)
	}
}

// queue finds the next pod that fits without visiting those that do not: a binary tree over the indices, each node of
// which stores the least CPU and the least memory that any pod below it requests. Node 1 is the root, the children of
// node i are 2i and 2i+1, and the leaves start at width.
//
// next costs O(log n) if the pods below a node that request little CPU also request little memory, and O(n) at worst;
// remove costs O(log n).
type queue struct {
	width int
	least []packing.Size
	alive []bool // by tree node: whether any pod is below it
}

func newQueue(pending []Pod, arch string) *queue {
	width := 1
	for width < len(pending) {
		width *= 2
	}
	q := &queue{width: width, least: make([]packing.Size, 2*width), alive: make([]bool, 2*width)}
	for at := range pending {
		if suits(pending[at].Arch, arch) {
			q.least[width+at], q.alive[width+at] = pending[at].Size, true
		}
	}
	for node := width - 1; node > 0; node-- {
		q.update(node)
	}
	return q
}

func (q *queue) update(node int) {
	least := packing.Size{MemoryBytes: math.MaxInt64, MilliCPU: math.MaxInt64}
	q.alive[node] = false
	for _, child := range []int{2 * node, 2*node + 1} {
		if q.alive[child] {
			q.alive[node] = true
			least.MemoryBytes = min(least.MemoryBytes, q.least[child].MemoryBytes)
			least.MilliCPU = min(least.MilliCPU, q.least[child].MilliCPU)
		}
	}
	q.least[node] = least
}

func (q *queue) remove(at int) {
	q.alive[q.width+at] = false
	for node := (q.width + at) / 2; node > 0; node /= 2 {
		q.update(node)
	}
}

// next returns the first index, starting at from, of a pod that fits into free, or -1.
func (q *queue) next(from int, free packing.Size) int {
	return q.search(1, 0, q.width, from, free)
}

// search is next below one tree node, which covers the indices low to high-1.
func (q *queue) search(node, low, high, from int, free packing.Size) int {
	if high <= from || !q.alive[node] || !q.least[node].Fits(free) {
		return -1
	}
	if node >= q.width {
		return low
	}
	middle := low + (high-low)/2
	if at := q.search(2*node, low, middle, from, free); at >= 0 {
		return at
	}
	return q.search(2*node+1, middle, high, from, free)
}
