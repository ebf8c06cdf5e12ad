package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

func TestANodeAndAFlavorTakeUpToTheirNumberOfPods(t *testing.T) {
	for _, tc := range []struct {
		name    string
		maxPods *int64
		pods    int
		want    bool
	}{
		{"any number", nil, 1 << 20, true},
		{"as many as it takes", new(int64(3)), 3, true},
		{"one more than it takes", new(int64(3)), 4, false},
		{"a node that takes none", new(int64(0)), 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := (&Node{MaxPods: tc.maxPods}).Takes(tc.pods); got != tc.want {
				t.Errorf("a node takes %d pods: %t, want %t", tc.pods, got, tc.want)
			}
			if got := (&Flavor{MaxPods: tc.maxPods}).Takes(tc.pods); got != tc.want {
				t.Errorf("a flavor takes %d pods: %t, want %t", tc.pods, got, tc.want)
			}
		})
	}
}

func TestANodeHasRoomForOneMorePodOnly(t *testing.T) {
	n := Node{MaxPods: new(int64(2)), Capacity: packing.Size{MilliCPU: 2000, MemoryBytes: 4 << 30}, Pods: []Pod{{}}}
	if p := (Pod{}); !n.HasRoom(&p) {
		t.Error("the second pod of two finds no room")
	}
	n.Pods = append(n.Pods, Pod{})
	if p := (Pod{}); n.HasRoom(&p) {
		t.Error("a third pod finds room beside two of two")
	}
}

func TestANodeHasRoomForTheVolumesThatItCanAttach(t *testing.T) {
	demands, err := constraint.NewCompiler(nil).Compile(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	with := func(count int64) Pod {
		return Pod{Class: class.Batch, Demands: demands.Attaching([]constraint.Volumes{{Driver: "disk", Count: count}}, false)}
	}
	n := Node{Class: class.Any, Pods: []Pod{with(1), {}}, Host: &constraint.Host{Attaches: map[string]int64{"disk": 3}}}
	for count, want := range map[int64]bool{1: true, 2: true, 3: false} {
		if p := with(count); n.HasRoom(&p) != want {
			t.Errorf("room for %d volumes beside one of three: %t, want %t", count, !want, want)
		}
	}
}
