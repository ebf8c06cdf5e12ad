package karpenter

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// Claim is a machine to launch. It has no single flavor, but all flavors that can hold its pods.
type Claim struct {
	// Pods are the pods planned on the machine, in the order of [Solve].
	Pods []cluster.Pod
	// Requests is the sum of their requests.
	Requests packing.Size
	// Flavors are those that can hold all of them, cheapest first; ties by name. There is at least one.
	Flavors []*cluster.Flavor
}

// Solution is a plan of pods.
type Solution struct {
	// Nodes maps the name of each pod planned on an existing node to the name of the node.
	Nodes map[string]string
	// Claims are the machines to launch, in no particular order.
	Claims []*Claim
	// Unplaced are the names of the pods that fit nowhere, in the order of [Solve].
	Unplaced []string
}

// Solve plans pods by first-fit decreasing. It sorts pods by CPU, then by memory, the greatest first; ties by arrival,
// then by name. It plans each pod on the first of these that can hold it:
//
//  1. an existing node: Ready nodes first, then Ordered nodes, each by name. It ignores Leaving and Asleep nodes.
//  2. a claim of this plan, those with the fewest pods first.
//  3. a new claim, if there are fewer than most.
//
// No node or claim is over-committed, and each claim has a pod. Solve does not modify its arguments.
//
// Cost: O(p (n + f c)) for p pods, n nodes, f flavors and c claims, plus sorting.
func Solve(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) Solution {
	return solve(pods, roomsOf(nodes), byPrice(flavors), most, len(pods))
}

// room is the free room of a node, and its number of pods.
type room struct {
	node *cluster.Node
	free packing.Size
	pods int
}

// roomsOf returns the rooms of the Ready and Ordered nodes, in the order in which [Solve] tries them.
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

// byPrice returns the flavors, cheapest first; ties by name.
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

// solve is [Solve] on prepared rooms, which it modifies, and on flavors by price. It stops when it has more claims than
// enough, because the caller then discards the solution.
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

// firstRoom returns the first room that can hold the pod, or nil.
func firstRoom(rooms []room, p *cluster.Pod) *room {
	for i := range rooms {
		if r := &rooms[i]; p.Size.Fits(r.free) && r.node.Takes(r.pods+1) && r.node.Suits(p) {
			return r
		}
	}
	return nil
}

// addToClaim adds the pod to the first claim that can hold it, and reports whether there is one. Claims stay sorted by
// their number of pods; a claim that receives a pod moves before those with equally many.
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

// addClaim adds a claim for the pod after the claims with one pod. It returns false if there are most claims already, or
// if no flavor can hold the pod.
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

// with returns the flavors that can hold the claim's pods and one more pod.
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
