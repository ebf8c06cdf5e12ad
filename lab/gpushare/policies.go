package gpushare

import (
	"math"
	"math/rand/v2"
	"slices"

	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/packing/gpus"
)

// chooser returns where a pod goes, of the nodes that fit it.
type chooser func(c *cluster, r gpus.Request, fits []int) choice

// Policy chooses nodes.
type Policy struct {
	// Name is unique.
	Name string
	// start returns the policy for one run, with a source for ties.
	start func(ties *rand.Rand) chooser
}

// Policies returns all policies: that of kube-scheduler, those of the paper, and Supercargo's with what it was before it had
// one for GPUs.
func Policies() []Policy {
	return []Policy{
		by("random", func(*cluster, gpus.Request, *node) float64 { return 0 }),
		by("LeastAllocated", leastAllocated),
		by("MostAllocated", func(c *cluster, r gpus.Request, n *node) float64 { return -leastAllocated(c, r, n) }),
		by("dot product", dotProduct),
		by("GPU clustering", clustering),
		by("GPU packing", gpuPacking),
		by("best fit of CPU and GPU", bestFit),
		{Name: "fragmentation gradient descent", start: descent},
		{Name: "supercargo without regard to GPUs", start: blind},
		{Name: "supercargo", start: ours},
	}
}

// by returns a policy that chooses the node with the greatest score; of equals any, as kube-scheduler does.
func by(name string, score func(c *cluster, r gpus.Request, n *node) float64) Policy {
	return Policy{Name: name, start: func(ties *rand.Rand) chooser {
		return func(c *cluster, r gpus.Request, fits []int) choice {
			best := best{ties: ties}
			for _, i := range fits {
				best.offer(choice{i, -1}, score(c, r, &c.nodes[i]))
			}
			return best.choice
		}
	}}
}

// best is the choice with the greatest score so far.
type best struct {
	ties   *rand.Rand
	score  float64
	equals int
	choice choice
}

func (b *best) offer(c choice, score float64) {
	switch {
	case b.equals == 0 || score > b.score:
		b.score, b.choice, b.equals = score, c, 1
	case score == b.score:
		if b.equals++; b.ties.IntN(b.equals) == 0 {
			b.choice = c
		}
	}
}

// leastAllocated is the score of kube-scheduler's default strategy: of CPU and memory, to the integer.
func leastAllocated(_ *cluster, r gpus.Request, n *node) float64 {
	part := func(free, request, size int64) int64 { return (free - request) * 100 / size }
	return float64((part(n.free.MilliCPU, r.MilliCPU, n.Size.MilliCPU) + part(n.free.MemoryBytes, r.MemoryBytes, n.Size.MemoryBytes)) / 2)
}

// greatest is what the amounts of a node are divided by where CPU and GPUs are added up.
const (
	greatestCPU = 128_000
	greatestGPU = 8 * gpus.Whole
)

func (n *node) freeMilli() (sum int64) {
	for _, d := range n.free.Devices {
		sum += d
	}
	return sum
}

// dotProduct prefers the least product of what is free and what is requested, of CPU and GPUs.
func dotProduct(_ *cluster, r gpus.Request, n *node) float64 {
	cpu := float64(n.free.MilliCPU) * float64(r.MilliCPU) / (greatestCPU * greatestCPU)
	gpu := float64(n.freeMilli()) * float64(r.Milli) / (greatestGPU * greatestGPU)
	return -cpu - gpu
}

// bestFit prefers the least sum of what remains, of CPU and GPUs.
func bestFit(_ *cluster, r gpus.Request, n *node) float64 {
	return -float64(n.free.MilliCPU-r.MilliCPU)/greatestCPU - float64(n.freeMilli()-r.Milli)/greatestGPU
}

// clustering prefers nodes with pods that request as much of GPUs: best those with only such, then those with others too,
// then nodes without pods, then the rest; of each the one with the least free GPUs.
func clustering(_ *cluster, r gpus.Request, n *node) float64 {
	if r.Milli == 0 {
		return 0
	}
	same, others := false, false
	for _, p := range n.pods {
		same, others = same || p.Milli == r.Milli, others || p.Milli != r.Milli && p.Milli > 0
	}
	rank := 0.0
	switch {
	case same && !others:
		rank = 3
	case same:
		rank = 2
	case !others:
		rank = 1
	}
	return rank - float64(n.freeMilli())/(2*greatestGPU)
}

// gpuPacking prefers devices in use, the fullest first, then free devices of nodes in use, then free nodes, the smallest first.
func gpuPacking(_ *cluster, r gpus.Request, n *node) float64 {
	count, each := r.Devices()
	free := 0
	for _, d := range n.free.Devices {
		if d == gpus.Whole {
			free++
		}
	}
	switch {
	case count == 0:
		return 0
	case free == len(n.free.Devices):
		return -float64(free)
	case each == gpus.Whole:
		return 100 - float64(count)
	}
	least := int64(math.MaxInt64)
	for _, d := range n.free.Devices {
		if d >= each {
			least = min(least, d)
		}
	}
	if least == gpus.Whole {
		return 100 - 1
	}
	return 200 - float64(least)/gpus.Whole
}

// descent is fragmentation gradient descent as in the paper: it knows the mix of all pods, and chooses the device, too. What a
// placement costs is kept until the node changes.
func descent(ties *rand.Rand) chooser {
	type cost struct {
		growth float64
		device int
	}
	var kept []map[gpus.Request]cost
	return func(c *cluster, r gpus.Request, fits []int) choice {
		if kept == nil {
			kept = make([]map[gpus.Request]cost, len(c.nodes))
		}
		best := best{ties: ties}
		for _, i := range fits {
			of, known := kept[i][r]
			if !known {
				of.growth, of.device = leastGrowth(c.all, &c.nodes[i], r)
				if kept[i] == nil {
					kept[i] = map[gpus.Request]cost{}
				}
				kept[i][r] = of
			}
			best.offer(choice{i, of.device}, -of.growth)
		}
		clear(kept[best.choice.node])
		return best.choice
	}
}

// leastGrowth returns the device on which a share costs least, and the cost.
func leastGrowth(m gpus.Mix, n *node, r gpus.Request) (growth float64, device int) {
	if count, each := r.Devices(); count != 1 || each == gpus.Whole {
		return grown(m, n, r, -1), -1
	}
	device = -1
	for d, free := range n.free.Devices {
		if free < r.Milli || slices.Contains(n.free.Devices[:d], free) {
			continue
		}
		if g := grown(m, n, r, d); device < 0 || g < growth {
			growth, device = g, d
		}
	}
	return growth, device
}

func grown(m gpus.Mix, n *node, r gpus.Request, device int) float64 {
	after := on(n.free, r, device)
	return m.Unusable(&after) - m.Unusable(&n.free)
}

// blind is the fit of a service by memory and CPU, which the plugins had for all pods.
func blind(*rand.Rand) chooser {
	return func(c *cluster, _ gpus.Request, fits []int) choice {
		return first(c, fits, packing.FitScores(rooms(c, fits)))
	}
}

// ours is the score of the plugins. It knows the pods that run, and assumes on which devices they are.
func ours(*rand.Rand) chooser {
	return func(c *cluster, r gpus.Request, fits []int) choice {
		nodes := rooms(c, fits)
		if r.Milli == 0 {
			has := func(at int) bool { return len(c.nodes[fits[at]].Size.Devices) > 0 }
			return first(c, fits, gpus.Spare(nodes, has, packing.FitScores))
		}
		free := make([]gpus.Node, len(fits))
		for at, i := range fits {
			n := &c.nodes[i]
			free[at] = n.free
			free[at].Devices = gpus.Devices(len(n.Size.Devices), n.pods)
		}
		return first(c, fits, gpus.Scores(nodes, free, r, c.learned(), packing.FitScores))
	}
}

// rooms returns nodes as packing sees them.
func rooms(c *cluster, fits []int) []packing.Node {
	nodes := make([]packing.Node, len(fits))
	for at, i := range fits {
		n := &c.nodes[i]
		nodes[at] = packing.Node{Name: n.Name, Free: packing.Size{MilliCPU: n.free.MilliCPU, MemoryBytes: n.free.MemoryBytes}}
	}
	return nodes
}

// first returns the first node by name of those with the best score.
func first(c *cluster, fits []int, scores []int64) choice {
	found := -1
	for at, i := range fits {
		if scores[at] == packing.BestScore && (found < 0 || c.nodes[i].Name < c.nodes[found].Name) {
			found = i
		}
	}
	return choice{found, -1}
}
