package main

import (
	"fmt"
	"math"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/halfempty"
)

var (
	small = halfempty.Flavor{Name: "small", Zone: "a", MilliCPU: 2000, MemoryBytes: 4 << 30, MicroDollarsPerHour: 100_000}
	large = halfempty.Flavor{Name: "large", Zone: "a", MilliCPU: 4000, MemoryBytes: 8 << 30, MicroDollarsPerHour: 200_000}
	web   = halfempty.Service{Name: "web", Namespace: "team", MilliCPU: 1000, MemoryBytes: 1 << 30}
)

// clusterOf returns a cluster of large nodes with that many pods each, of which a large node holds four and a small one two.
func clusterOf(flavors []halfempty.Flavor, pods ...int) *halfempty.Cluster {
	c := &halfempty.Cluster{Flavors: flavors, Services: []halfempty.Service{web}}
	for i, n := range pods {
		node := fmt.Sprintf("node-%d", i)
		c.Nodes = append(c.Nodes, halfempty.Node{Name: node, Flavor: "large"})
		for range n {
			c.Pods = append(c.Pods, halfempty.Pod{Name: fmt.Sprintf("web-%d", len(c.Pods)), Node: node})
		}
	}
	return c
}

// TestKarpenterConsolidates: what it must decide, and when the machines are paid.
func TestKarpenterConsolidates(t *testing.T) {
	only, both := []halfempty.Flavor{large}, []halfempty.Flavor{small, large}
	for _, tc := range []struct {
		name    string
		cluster *halfempty.Cluster
		budget  string
		// last and nodes are at the end. bill is in dollars, dear or cheap until the command is validated after 15 s.
		last  float64
		nodes int
		moved int
		bill  float64
	}{
		{"a full node stays", clusterOf(only, 4), "100%", 0.2, 1, 0, 0.2 * 600 / 3600},
		{"an empty node is deleted", clusterOf(only, 4, 0), "100%", 0.2, 1, 0, (0.2*600 + 0.2*15) / 3600},
		{"a node is deleted whose pods have room elsewhere", clusterOf(only, 3, 1), "100%", 0.2, 1, -1, (0.2*600 + 0.2*15) / 3600},
		{"a node is replaced by a cheaper one, and both are paid in the meantime", clusterOf(both, 2), "100%", 0.1, 1, 2, (0.1*585 + 0.2*75) / 3600},
		{"nothing is disrupted without a budget", clusterOf(only, 3, 1), "0", 0.4, 2, 0, 0.4 * 600 / 3600},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := disrupt(t.Context(), tc.cluster, conditions{budget: tc.budget, lag: time.Minute, last: 10 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(f.LastDollarsPerHour-tc.last) > 1e-9 || f.LastNodes != tc.nodes || tc.moved >= 0 && f.PodsMoved != tc.moved || f.Homeless > 0 {
				t.Errorf("%v; %d pods are homeless; want $%v/h on %d nodes with %d pods moved", f, f.Homeless, tc.last, tc.nodes, tc.moved)
			}
			if math.Abs(f.Dollars-tc.bill) > 0.2*5/3600 { // 5 s for the computer
				t.Errorf("the bill is $%.6f, want $%.6f", f.Dollars, tc.bill)
			}
		})
	}
}

// TestKarpenterKeepsItsBudget: of twenty half-empty nodes it removes two at a time.
func TestKarpenterKeepsItsBudget(t *testing.T) {
	pods := make([]int, 20)
	for i := range pods {
		pods[i] = 2
	}
	f, err := disrupt(t.Context(), clusterOf([]halfempty.Flavor{large}, pods...), conditions{budget: "10%", lag: time.Minute, last: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if f.LastNodes != 10 || f.PodsMoved < 20 || len(f.Decisions) < 5 {
		t.Errorf("%v, want 10 nodes", f)
	}
	for _, d := range f.Decisions {
		if d.Removes > 2 {
			t.Errorf("after %v s it removes %d nodes at a time", d.At, d.Removes)
		}
	}
}
