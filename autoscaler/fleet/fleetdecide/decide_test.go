package fleetdecide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

const minute = time.Minute

func size(milliCPU, memoryBytes int64) packing.Size {
	return packing.Size{MilliCPU: milliCPU, MemoryBytes: memoryBytes}
}

// job is a batch pod that requests the same amount of both resources.
func job(name string, amount int64, runtime time.Duration) cluster.Pod {
	return cluster.Pod{Item: packing.Item{Name: name, Size: size(amount, amount), Runtime: runtime}, Class: class.Batch}
}

func service(name string, amount int64) cluster.Pod {
	return cluster.Pod{Item: packing.Item{Name: name, Size: size(amount, amount)}, Class: class.Service}
}

// flavor is a flavor with the same amount of both resources.
func flavor(name string, amount, price int64) cluster.Flavor {
	return cluster.Flavor{Name: name, Size: size(amount, amount), Arch: "amd64", MicroDollarsPerHour: price}
}

// The large flavor is cheaper if three quarters of it are used.
var small, large = flavor("small", 4, 40), flavor("large", 10, 75)

// node is a ready machine of size ten for all pods.
func node(name string, pods ...cluster.Pod) cluster.Node {
	return cluster.Node{
		Name: name, Flavor: "large", Class: class.Any, Capacity: size(10, 10), Arch: "amd64", Phase: cluster.Ready,
		MicroDollarsPerHour: 75, Pods: pods,
	}
}

func of(c class.Class, n cluster.Node) cluster.Node { n.Class = c; return n }

// due is a machine on order.
func due(in time.Duration, n cluster.Node) cluster.Node {
	n.Phase, n.Due = cluster.Ordered, in
	return n
}

// state is a state in a round that buys. Machines take two minutes, and the next round is in five.
func state(pending []cluster.Pod, nodes ...cluster.Node) *cluster.State {
	return &cluster.State{
		Nodes: nodes, Pending: pending, Flavors: []cluster.Flavor{large, small}, MaxNodes: 100,
		Lag: 2 * minute, ScalingInterval: 5 * minute, SchedulingInterval: 20 * time.Second, BillingPeriod: minute, Scaling: true,
	}
}

func podsOf(all ...cluster.Pod) []cluster.Pod { return all }

func changedNode(n cluster.Node, change func(*cluster.Node)) cluster.Node { change(&n); return n }

// full is a node whose only job leaves no room until it ends.
func full(name string, ends time.Duration) cluster.Node {
	return node(name, job("on-"+name, 10, ends))
}

// came adds pods that arrived the given times ago. They were watched for seven minutes, the length of a forecast.
func came(s *cluster.State, recent ...cluster.Pod) *cluster.State {
	s.Recent, s.Observed = recent, 7*minute
	return s
}

func ago(p cluster.Pod, waited time.Duration) cluster.Pod { p.Waited = waited; return p }

// often returns n pods like p that arrived within the last minute, the last first.
func often(p cluster.Pod, n int) (all []cluster.Pod) {
	for i := range n {
		p.Waited = time.Duration(i+1) * minute / time.Duration(n)
		p.Name = fmt.Sprint("came", i)
		all = append(all, p)
	}
	return all
}

func observed(s *cluster.State, length time.Duration) *cluster.State { s.Observed = length; return s }

// drawState draws a cluster with times in nanoseconds, so that no two events coincide.
func drawState(t *rapid.T) *cluster.State {
	within := func(most time.Duration, name string) time.Duration {
		return time.Duration(rapid.Int64Range(1, int64(most)).Draw(t, name))
	}
	letters := "abcdefghijklmnopqrstuvwxyz"
	pod := func(name string) cluster.Pod {
		p := job(name, 0, within(15*minute, "runtime"))
		p.Size = size(rapid.Int64Range(0, 6).Draw(t, "cpu"), rapid.Int64Range(0, 6).Draw(t, "memory"))
		p.Arch = rapid.SampledFrom([]string{"", "", "", "amd64", "arm64"}).Draw(t, "podArch")
		if rapid.IntRange(0, 3).Draw(t, "class") == 0 {
			p.Class, p.Runtime = class.Service, 0
		}
		return p
	}
	s := state(nil)
	for i := range rapid.IntRange(0, 5).Draw(t, "nodes") {
		n := node("n" + letters[i:i+1])
		n.Capacity = size(rapid.Int64Range(3, 12).Draw(t, "cpuCapacity"), rapid.Int64Range(3, 12).Draw(t, "memoryCapacity"))
		n.Class = rapid.SampledFrom([]class.Class{class.Any, class.Batch, class.Service}).Draw(t, "nodeClass")
		n.Arch = rapid.SampledFrom([]string{"amd64", "amd64", "arm64"}).Draw(t, "arch")
		n.MaxPods = rapid.Ptr(rapid.Int64Range(1, 5), true).Draw(t, "maxPods")
		n.Age = within(10*minute, "age")
		n.MicroDollarsPerHour = rapid.Int64Range(0, 3).Draw(t, "price")
		switch rapid.IntRange(0, 5).Draw(t, "phase") {
		case 0:
			n = due(within(8*minute, "due"), n)
		case 1:
			n.Phase = cluster.Leaving
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "pods") {
			if p := pod(n.Name + letters[j:j+1]); n.Phase != cluster.Ordered && p.Size.Fits(n.Free()) {
				if p.Class == class.Batch && rapid.IntRange(0, 9).Draw(t, "overdue") == 0 {
					p.Runtime = 0
				}
				n.Pods = append(n.Pods, p)
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "pending") {
		s.Pending = append(s.Pending, pod("p"+letters[i:i+1]))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "recent") {
		like := pod("r" + letters[i:i+1])
		for j := range rapid.IntRange(1, 8).Draw(t, "times") {
			p := like
			p.Name += letters[j : j+1]
			p.Waited = within(7*minute, "waited")
			s.Recent = append(s.Recent, p)
		}
	}
	slices.SortFunc(s.Recent, func(a, b cluster.Pod) int { return int(a.Waited - b.Waited) })
	s.Observed = rapid.SampledFrom([]time.Duration{0, minute, 3 * minute, 7 * minute}).Draw(t, "observed")
	s.Flavors = []cluster.Flavor{flavor("arm", 5, 30), large, small}
	s.Flavors[0].Arch = "arm64"
	s.Flavors[2].MaxPods = rapid.Ptr(rapid.Int64Range(1, 3), true).Draw(t, "flavorMaxPods")
	s.MaxNodes = rapid.IntRange(0, 12).Draw(t, "maxNodes")
	return s
}

func cloned(s *cluster.State) *cluster.State {
	c := *s
	c.Nodes = slices.Clone(s.Nodes)
	for i := range c.Nodes {
		c.Nodes[i].Pods = slices.Clone(c.Nodes[i].Pods)
	}
	c.Pending, c.Recent, c.Flavors = slices.Clone(s.Pending), slices.Clone(s.Recent), slices.Clone(s.Flavors)
	return &c
}

// TestAnEvaluationThatIsTooShortSaysNothing tests the boundary: a pod that arrives every 420 ms would arrive a thousand times
// in seven minutes.
func TestAnEvaluationThatIsTooShortSaysNothing(t *testing.T) {
	for length, want := range map[time.Duration]int{420 * time.Millisecond: 0, 420*time.Millisecond + 1: 999, 421 * time.Millisecond: 997} {
		s := observed(came(state(nil), ago(job("r", 1, minute), 0)), length)
		if got := newForecast(s, s.Lag+s.ScalingInterval, nil).events.Len(); got != want {
			t.Errorf("watched for %v, %d pods are expected, want %d", length, got, want)
		}
	}
}
