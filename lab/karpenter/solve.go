package karpenter

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// Claim is a machine to launch. While pods are planned, it has no flavor yet, only those that can still hold its pods.
type Claim struct {
	// Pods are the pods planned on the machine, in the order of [Solve].
	Pods []cluster.Pod
	// Requests is their total size.
	Requests packing.Size
	// Flavors can hold all of them, the cheapest first; ties by name. There is at least one.
	Flavors []*cluster.Flavor
}

// Solution is where pods go.
type Solution struct {
	// Nodes has the names of the nodes, by the names of the pods planned on them.
	Nodes map[string]string
	// Claims are the machines to launch, in no particular order.
	Claims []*Claim
	// Unplaced are the names of the pods that fit nowhere, in the order of planning.
	Unplaced []string
}

// Solve plans pods by first-fit decreasing: pods by CPU, then memory, the greatest first (ties by arrival, then by
// name), each on the first of these that holds it:
//
//  1. nodes, the Ready ones first, then by name. Nodes on order count; Leaving and Asleep ones do not;
//  2. machines already planned to launch, those with the fewest pods first;
//  3. a new machine, if fewer than most are planned.
//
// Nothing is over-committed, and each claim has a pod. Neither argument is modified.
//
// Cost: O(p (n + f c)) for p pods, n nodes, f flavors and c claims, plus sorting.
func Solve(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) Solution {
	return solve(pods, roomsOf(nodes), byPrice(flavors), most, len(pods))
}

// room is what a node has left.
type room struct {
	node *cluster.Node
	free packing.Size
	pods int
}

// roomsOf returns the rooms of the nodes that accept pods or will, in the order in which they are tried.
func roomsOf(nodes []cluster.Node) []room {
	var all []room
	for i := range nodes {
		n := &nodes[i]
		if n.Phase == cluster.Ready || n.Phase == cluster.Ordered {
			all = append(all, room{n, n.Free(), len(n.Pods)})
		}
	}
	initialized := func(r room) int {
		if r.node.Phase == cluster.Ready {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b room) int {
		return cmp.Or(cmp.Compare(initialized(a), initialized(b)), cmp.Compare(a.node.Name, b.node.Name))
	})
	return all
}

// byPrice returns the flavors, the cheapest first; ties by name.
func byPrice(flavors []cluster.Flavor) []*cluster.Flavor {
	all := make([]*cluster.Flavor, len(flavors))
	for i := range flavors {
		all[i] = &flavors[i]
	}
	slices.SortFunc(all, func(a, b *cluster.Flavor) int {
		return cmp.Or(cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// decreasing compares pods in the order of planning.
func decreasing(a, b cluster.Pod) int {
	return cmp.Or(
		cmp.Compare(b.Size.MilliCPU, a.Size.MilliCPU), cmp.Compare(b.Size.MemoryBytes, a.Size.MemoryBytes),
		cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Name, b.Name),
	)
}

// solve is [Solve] on prepared rooms, which it uses up, and on flavors by price. It stops when it has more than enough
// claims: the solution is then of no use.
func solve(pods []cluster.Pod, rooms []room, flavors []*cluster.Flavor, most, enough int) Solution {
	s := Solution{Nodes: make(map[string]string, len(pods))}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, decreasing)
	for i := range pods {
		p := &pods[i]
		if r := firstRoom(rooms, p); r != nil {
			r.free = r.free.Minus(p.Size)
			r.pods++
			s.Nodes[p.Name] = r.node.Name
			continue
		}
		if !s.addToClaim(p) && !s.addClaim(p, flavors, most) {
			s.Unplaced = append(s.Unplaced, p.Name)
		}
		if len(s.Claims) > enough {
			break
		}
	}
	return s
}

// firstRoom returns the first room that holds the pod, or nil.
func firstRoom(rooms []room, p *cluster.Pod) *room {
	for i := range rooms {
		if r := &rooms[i]; p.Size.Fits(r.free) && r.node.Takes(r.pods+1) && r.node.Suits(p) {
			return r
		}
	}
	return nil
}

// addToClaim adds the pod to the first claim that holds it. Claims stay ordered by their number of pods: one that gets
// a pod goes before those that have as many.
func (s *Solution) addToClaim(p *cluster.Pod) bool {
	for i, c := range s.Claims {
		flavors := c.with(p)
		if len(flavors) == 0 {
			continue
		}
		c.add(p, flavors)
		for ; i+1 < len(s.Claims) && len(s.Claims[i+1].Pods) < len(c.Pods); i++ {
			s.Claims[i] = s.Claims[i+1]
		}
		s.Claims[i] = c
		return true
	}
	return false
}

// addClaim adds a claim for the pod, after the claims with one pod.
func (s *Solution) addClaim(p *cluster.Pod, flavors []*cluster.Flavor, most int) bool {
	c := &Claim{Flavors: flavors}
	if flavors = c.with(p); len(s.Claims) >= most || len(flavors) == 0 {
		return false
	}
	c.add(p, flavors)
	at, _ := slices.BinarySearchFunc(s.Claims, 2, func(c *Claim, pods int) int { return cmp.Compare(len(c.Pods), pods) })
	s.Claims = slices.Insert(s.Claims, at, c)
	return true
}

// with returns the flavors that hold the claim's pods and one more pod.
func (c *Claim) with(p *cluster.Pod) []*cluster.Flavor {
	size := plus(c.Requests, p.Size)
	var fit []*cluster.Flavor
	for _, f := range c.Flavors {
		if size.Fits(f.Size) && f.Takes(len(c.Pods)+1) && suits(f, p) {
			fit = append(fit, f)
		}
	}
	return fit
}

func (c *Claim) add(p *cluster.Pod, flavors []*cluster.Flavor) {
	c.Pods = append(c.Pods, *p)
	c.Requests = plus(c.Requests, p.Size)
	c.Flavors = flavors
}

// suits reports whether architecture, labels and taints allow the pod on the flavor.
func suits(f *cluster.Flavor, p *cluster.Pod) bool {
	return (p.Arch == "" || p.Arch == f.Arch) && (p.Demands == nil || f.Host == nil || p.Demands.Admits(f.Host) == "")
}

func plus(a, b packing.Size) packing.Size {
	return packing.Size{MilliCPU: a.MilliCPU + b.MilliCPU, MemoryBytes: a.MemoryBytes + b.MemoryBytes}
}
