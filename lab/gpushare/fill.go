package gpushare

import (
	"math/rand/v2"
	"slices"

	"supercargo.dev/supercargo/internal/packing/gpus"
)

// Until is the GPUs that are requested in total until a cluster counts as filled, as a multiple of those that it has.
const Until = 1.3

// Filled says how far a policy has filled the cluster.
type Filled struct {
	// Arrived is the number of pods that came, Placed of those that were placed.
	Arrived, Placed int
	// Allocated is the part of the cluster's GPUs that is allocated.
	Allocated float64
	// Unusable is the part of the cluster's GPUs that is free and that a pod of the list cannot use on average.
	Unusable float64
}

// Run is how a policy fills a cluster.
type Run struct {
	// AtCapacity is the state when the pods had requested as many GPUs as the cluster has, AtEnd when they had requested [Until]
	// as many.
	AtCapacity, AtEnd Filled
}

// node is a node with its pods.
type node struct {
	Node
	free gpus.Node
	pods []gpus.Request
}

// cluster is what a policy sees.
type cluster struct {
	nodes []node
	// all is the mix of the whole list, by the number of pods, which only policies that are told the future know.
	all gpus.Mix
	// running are the pods that run, by what they request.
	running map[gpus.Request]int64
}

// Fill draws pods from the list and places them by the policy. The same seed draws the same pods for every policy, and breaks
// ties. Neither list may be empty of GPUs. Cost: O(pods · nodes), and that of the policy.
func Fill(nodes []Node, pods []gpus.Request, p Policy, seed uint64) Run {
	c := newCluster(nodes, pods)
	draw, ties := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	choose := p.start(ties)
	capacity := c.milli()
	var run Run
	var now Filled
	var requested, allocated int64
	for float64(requested) < Until*float64(capacity) {
		r := pods[draw.IntN(len(pods))]
		below := requested < capacity
		requested += r.Milli
		now.Arrived++
		if fits := c.fitting(r); len(fits) > 0 {
			at := choose(c, r, fits)
			c.place(at, r)
			now.Placed++
			allocated += r.Milli
		}
		if below && requested >= capacity {
			run.AtCapacity = c.filled(now, allocated, capacity)
		}
	}
	run.AtEnd = c.filled(now, allocated, capacity)
	return run
}

func newCluster(nodes []Node, pods []gpus.Request) *cluster {
	c := &cluster{running: map[gpus.Request]int64{}}
	for _, n := range nodes {
		free := n.Size
		free.Devices = slices.Clone(free.Devices)
		c.nodes = append(c.nodes, node{Node: n, free: free})
	}
	kinds := map[gpus.Request]int64{}
	for _, r := range pods {
		kinds[r]++
	}
	for r, n := range kinds {
		c.all = append(c.all, gpus.Kind{Request: r, Weight: n})
	}
	return c
}

// milli returns the GPUs of the cluster in thousandths.
func (c *cluster) milli() (sum int64) {
	for i := range c.nodes {
		sum += int64(len(c.nodes[i].Size.Devices)) * gpus.Whole
	}
	return sum
}

// fitting returns the nodes that fit a pod.
func (c *cluster) fitting(r gpus.Request) []int {
	var fits []int
	for i := range c.nodes {
		if c.nodes[i].free.Fits(r) {
			fits = append(fits, i)
		}
	}
	return fits
}

// choice is a node and the device for a share; -1 leaves the device to [gpus.Node.Take].
type choice struct{ node, device int }

func (c *cluster) place(at choice, r gpus.Request) {
	n := &c.nodes[at.node]
	n.free = on(n.free, r, at.device)
	n.pods = append(n.pods, r)
	c.running[r]++
}

// on returns the room of a node after it has taken a pod, with a share on the given device, or on the tightest for -1.
func on(free gpus.Node, r gpus.Request, device int) gpus.Node {
	free.Devices = slices.Clone(free.Devices)
	if device < 0 {
		free.Take(r)
		return free
	}
	free.Devices[device] -= r.Milli
	free.MilliCPU, free.MemoryBytes = free.MilliCPU-r.MilliCPU, free.MemoryBytes-r.MemoryBytes
	return free
}

func (c *cluster) filled(now Filled, allocated, capacity int64) Filled {
	unusable := 0.0
	for i := range c.nodes {
		unusable += c.all.Unusable(&c.nodes[i].free)
	}
	now.Allocated, now.Unusable = float64(allocated)/float64(capacity), unusable/float64(capacity)
	return now
}

// learned returns the mix of the pods that run.
func (c *cluster) learned() gpus.Mix { return gpus.MixOf(c.running) }
