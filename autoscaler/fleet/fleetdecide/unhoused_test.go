package fleetdecide

import (
	"slices"
	"testing"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

func TestPodsLeaveTogetherOrSomeAreUnhoused(t *testing.T) {
	pod := func(name string, cpu int64) cluster.Pod {
		return cluster.Pod{Item: packing.Item{Name: name, Size: packing.Size{MilliCPU: cpu}}, Class: class.Batch}
	}
	node := func(name string, free int64, change ...func(*cluster.Node)) cluster.Node {
		n := cluster.Node{Name: name, Class: class.Any, Capacity: packing.Size{MilliCPU: free}, Phase: cluster.Ready}
		for _, f := range change {
			f(&n)
		}
		return n
	}
	phase := func(p cluster.Phase) func(*cluster.Node) { return func(n *cluster.Node) { n.Phase = p } }
	tests := []struct {
		name   string
		others []cluster.Node
		want   []string
	}{
		{"no other node", nil, []string{"large", "small"}},
		{"room for both on one", []cluster.Node{node("b", 5)}, nil},
		{"room for each on one of its own", []cluster.Node{node("b", 3), node("c", 2)}, nil},
		{"room for either alone", []cluster.Node{node("b", 3)}, []string{"small"}},
		{"room on a node that is on its way", []cluster.Node{node("b", 5, phase(cluster.Ordered))}, []string{"large", "small"}},
		{"room on a node that is leaving", []cluster.Node{node("b", 5, phase(cluster.Leaving))}, []string{"large", "small"}},
		{"room on a node for services", []cluster.Node{node("b", 5, func(n *cluster.Node) { n.Class = class.Service })}, []string{"large", "small"}},
		{"room but no place", []cluster.Node{node("b", 5, func(n *cluster.Node) { n.MaxPods = new(int64(1)) })}, []string{"small"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			from := node("a", 10, phase(cluster.Leaving))
			from.Pods = []cluster.Pod{pod("large", 3), pod("small", 2)}
			var got []string
			for _, u := range Unhoused(&cluster.State{Nodes: append([]cluster.Node{from}, tc.others...)}, "a") {
				got = append(got, u.Pod)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("unhoused are %v, want %v", got, tc.want)
			}
		})
	}
}
