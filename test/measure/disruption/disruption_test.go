package disruption

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/halfempty"
)

var (
	small = halfempty.Flavor{Name: "small", Zone: "a", MilliCPU: 2000, MemoryBytes: 4 << 30, MicroDollarsPerHour: 100_000}
	large = halfempty.Flavor{Name: "large", Zone: "a", MilliCPU: 4000, MemoryBytes: 8 << 30, MicroDollarsPerHour: 400_000}
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

func TestAFleetConsolidates(t *testing.T) {
	only, both := []halfempty.Flavor{large}, []halfempty.Flavor{small, large}
	for _, tc := range []struct {
		name    string
		cluster *halfempty.Cluster
		last    float64
		nodes   int
		moved   int
	}{
		{"a full node stays", clusterOf(only, 4), 0.4, 1, 0},
		{"an empty node is released", clusterOf(only, 4, 0), 0.4, 1, 0},
		{"a node is emptied whose pods have room elsewhere", clusterOf(only, 3, 1), 0.4, 1, 1},
		{"a node is exchanged for a cheaper one", clusterOf(both, 2), 0.1, 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := consolidate(t.Context(), tc.cluster, conditions{budget: "100%", lag: time.Minute, last: 10 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(f.LastDollarsPerHour-tc.last) > 1e-9 || f.LastNodes != tc.nodes || f.PodsMoved != tc.moved || f.Homeless > 0 {
				t.Errorf("%v; %d pods are homeless; want $%v/h on %d nodes with %d pods moved", f, f.Homeless, tc.last, tc.nodes, tc.moved)
			}
		})
	}
}

// TestBothMachinesArePaidUntilTheNewOneHasCome: three more minutes of lag cost three more minutes of the old machine.
func TestBothMachinesArePaidUntilTheNewOneHasCome(t *testing.T) {
	bill := func(lag time.Duration) float64 {
		c := clusterOf([]halfempty.Flavor{small, large}, 2)
		f, err := consolidate(t.Context(), c, conditions{budget: "100%", lag: lag, last: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return f.Dollars
	}
	const minutes, tolerance = 3, 0.2 // of the time of the computer
	more := (bill(4*time.Minute) - bill(time.Minute)) / 0.4 * 60
	if math.Abs(more-minutes) > tolerance {
		t.Errorf("the old machine was paid for %.2f more minutes, want %d", more, minutes)
	}
}

// TestAFleetKeepsItsBudget: of twenty half-empty nodes it empties one at a time.
func TestAFleetKeepsItsBudget(t *testing.T) {
	pods := make([]int, 20)
	for i := range pods {
		pods[i] = 1 + i%2
	}
	f, err := consolidate(t.Context(), clusterOf([]halfempty.Flavor{large}, pods...), conditions{budget: "1", lag: time.Minute, last: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if f.LastNodes >= 15 || f.PodsMoved == 0 {
		t.Errorf("%v, want fewer than 15 nodes", f)
	}
	for _, d := range f.Decisions {
		if d.Removes > 1 {
			t.Errorf("after %v s it empties %d nodes at a time", d.At, d.Removes)
		}
	}
}

// TestTheSameClusterGoesToKarpenter: its program gets the file, and its figures come back.
func TestTheSameClusterGoesToKarpenter(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "karpenter")
	script := "#!/bin/sh\necho '{\"autoscaler\":\"karpenter\",\"budget\":\"'$4'\",\"nodes\":'$(grep -o '\"flavor\":' $2 | wc -l)'}'\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "cluster.json")
	c := clusterOf([]halfempty.Flavor{large}, 1, 2, 3)
	if err := write(c, file); err != nil {
		t.Fatal(err)
	}
	all, err := compare(t.Context(), settings{karpenter: program, only: "karpenter", under: conditions{budget: "10%"}}, c, file)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Autoscaler != "karpenter" || all[0].Budget != "10%" || all[0].Nodes != 3 {
		t.Errorf("the figures are %+v", all)
	}
}
