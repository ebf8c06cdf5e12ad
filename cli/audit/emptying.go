package audit

import (
	"cmp"
	"maps"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
)

// mostEffort bounds the search for nodes to empty: the number of trials times the nodes and pods of the cluster, all of
// which a trial reads. With 70 nodes and 1,500 pods it is enough to try each node in each order. A cluster with more
// than mostTrial nodes and pods is too large to try enough nodes to matter: the search then only releases empty nodes.
const (
	mostEffort = 1_000_000
	mostTrial  = 20_000
)

// emptying is a search for nodes that can be released if their pods move to other nodes. Unlike a NodeFleet, it has no
// threshold, and it may keep an empty node to receive the pods of a more expensive one.
type emptying struct {
	nodes []cluster.Node // by name
	rooms []purchase.ExistingNode
	gone  []bool
	left  *int // effort
	trial int  // the effort of a trial
	stop  func() bool
}

// ways in which the search orders nodes. Each finds the best result on some clusters.
var orders = []func(a, b *cluster.Node) int{
	func(a, b *cluster.Node) int { return cmp.Compare(b.MicroDollarsPerHour, a.MicroDollarsPerHour) },
	func(a, b *cluster.Node) int { return cmp.Compare(utilization(a), utilization(b)) },
	func(a, b *cluster.Node) int {
		return cmp.Compare(float64(b.MicroDollarsPerHour)*(1-utilization(b)), float64(a.MicroDollarsPerHour)*(1-utilization(a)))
	},
	func(a, b *cluster.Node) int { return cmp.Compare(perRoom(b), perRoom(a)) },
	func(a, b *cluster.Node) int { return cmp.Compare(len(a.Pods), len(b.Pods)) },
}

// utilization is the mean of the requested shares of CPU and memory.
func utilization(n *cluster.Node) float64 {
	used := n.Used()
	return (Share(used.MilliCPU, n.Capacity.MilliCPU) + Share(used.MemoryBytes, n.Capacity.MemoryBytes)) / 2
}

// perRoom is the price per unit of room, where a CPU counts as much as 4 GiB.
func perRoom(n *cluster.Node) float64 {
	room := float64(n.Capacity.MilliCPU)/1000 + float64(n.Capacity.MemoryBytes)/(4<<30)
	return float64(n.MicroDollarsPerHour) / max(room, 1e-9)
}

// empty returns the state after nodes have been emptied in an order, and then those that became worthwhile.
func (c *scene) empty(s *cluster.State, order func(a, b *cluster.Node) int, left *int) cluster.State {
	e := &emptying{nodes: slices.Clone(s.Nodes), gone: make([]bool, len(s.Nodes)), left: left, stop: c.stopped}
	e.trial = len(e.nodes) + len(c.at)
	for i := range e.nodes {
		e.nodes[i].Pods = slices.Clone(e.nodes[i].Pods)
		e.rooms = append(e.rooms, roomOf(&e.nodes[i]))
	}
	turn := make([]int, len(e.nodes))
	for i := range turn {
		turn[i] = i
	}
	slices.SortStableFunc(turn, func(a, b int) int { return order(&e.nodes[a], &e.nodes[b]) })
	for _, i := range turn {
		if len(e.nodes[i].Pods) > 0 { // empty nodes may receive pods until the end
			e.release(i)
		}
	}
	for _, i := range turn {
		if len(e.nodes[i].Pods) == 0 {
			e.release(i)
		}
	}
	for e.exchange() {
	}
	after := *s
	after.Nodes = nil
	for i := range e.nodes {
		if !e.gone[i] {
			after.Nodes = append(after.Nodes, e.nodes[i])
		}
	}
	return after
}

// roomOf returns the room of a node for pods of other nodes; none unless it accepts pods.
func roomOf(n *cluster.Node) purchase.ExistingNode {
	room := purchase.NodeOf(n, n.Free(), len(n.Pods))
	if n.Phase != cluster.Ready {
		room.Places = new(int64(0))
	}
	return room
}

// mayRelease reports whether a node may be released once it is empty.
func mayRelease(n *cluster.Node) bool {
	return !n.Kept && n.Incoming == 0 && !slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool { return p.Fixed })
}

// release empties and releases a node if all its pods fit on others, and reports whether it did.
func (e *emptying) release(i int) bool {
	n := &e.nodes[i]
	if e.gone[i] || !mayRelease(n) || e.stop() {
		return false
	}
	targets, fits := e.place(i)
	if !fits {
		return false
	}
	e.gone[i] = true
	for j, pod := range n.Pods {
		to := &e.nodes[targets[j]]
		to.Pods = append(to.Pods, pod)
		e.rooms[targets[j]] = roomOf(to)
	}
	n.Pods = nil
	return true
}

// place returns the indices of the nodes to which the pods of a node can move together.
func (e *emptying) place(i int) (targets []int, fits bool) {
	n := &e.nodes[i]
	if len(n.Pods) == 0 {
		return nil, true
	}
	if *e.left -= e.trial; *e.left < 0 || e.trial > mostTrial {
		return nil, false
	}
	request := purchase.Request{}
	at := make(map[string]int, len(e.nodes))
	for j := range e.nodes {
		if j == i || e.gone[j] || slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool { return !e.nodes[j].Class.Takes(p.Class) }) {
			continue
		}
		request.Nodes = append(request.Nodes, e.rooms[j])
		at[e.nodes[j].Name] = j
	}
	index := make(map[string]int, len(n.Pods))
	for j := range n.Pods {
		index[n.Pods[j].Name] = j
		pod := purchase.PodOf(&n.Pods[j])
		if pod.Arch == "" && n.Pods[j].Ways.Has(cluster.Migrate) { // its state can only continue on its architecture
			pod.Arch = n.Arch
		}
		request.Pods = append(request.Pods, pod)
	}
	result := purchase.Supercargo(request)
	if len(result.Unplaceable) > 0 {
		return nil, false
	}
	targets = make([]int, len(n.Pods))
	for _, a := range result.Assignments {
		targets[index[a.Pod]] = at[a.Machine]
	}
	return targets, true
}

// exchange reverts a node that was released if a more expensive one can be released for it, and reports whether it
// did. The saving is the greatest for the first pair that it finds, the most expensive node first.
func (e *emptying) exchange() bool {
	var kept, released []int
	for i := range e.nodes {
		switch {
		case e.gone[i] && e.nodes[i].Phase == cluster.Ready:
			released = append(released, i)
		case !e.gone[i] && mayRelease(&e.nodes[i]):
			kept = append(kept, i)
		}
	}
	slices.SortStableFunc(kept, func(a, b int) int {
		return cmp.Compare(e.nodes[b].MicroDollarsPerHour, e.nodes[a].MicroDollarsPerHour)
	})
	slices.SortStableFunc(released, func(a, b int) int {
		return cmp.Compare(e.nodes[a].MicroDollarsPerHour, e.nodes[b].MicroDollarsPerHour)
	})
	for _, x := range kept {
		for _, r := range released {
			if e.nodes[r].MicroDollarsPerHour >= e.nodes[x].MicroDollarsPerHour || *e.left <= 0 {
				break
			}
			e.gone[r], e.rooms[r] = false, roomOf(&e.nodes[r])
			if e.release(x) {
				return true
			}
			e.gone[r] = true
		}
	}
	return false
}

// cheapestState returns the cheapest of some states, then the one with the fewest moves, then the first.
func (c *scene) cheapestState(states []cluster.State) cluster.State {
	return slices.MinFunc(states, func(a, b cluster.State) int {
		return cmp.Or(cmp.Compare(priceOf(&a), priceOf(&b)), cmp.Compare(c.movedPods(&a), c.movedPods(&b)))
	})
}

func priceOf(s *cluster.State) (sum int64) {
	for i := range s.Nodes {
		sum += s.Nodes[i].MicroDollarsPerHour
	}
	return sum
}

// movedPods returns the number of pods that are not on the node where they were.
func (c *scene) movedPods(s *cluster.State) (n int) {
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			if at, is := c.at[s.Nodes[i].Pods[j].Name]; is && c.nodes[at].Name != s.Nodes[i].Name {
				n++
			}
		}
	}
	return n
}

// emptied returns the sorted names of the priced nodes that a state lacks.
func (c *scene) emptied(s *cluster.State) []string {
	gone := make(map[string]bool, len(c.nodes))
	for i := range c.nodes {
		gone[c.nodes[i].Name] = true
	}
	for i := range s.Nodes {
		delete(gone, s.Nodes[i].Name)
	}
	return slices.Sorted(maps.Keys(gone))
}
