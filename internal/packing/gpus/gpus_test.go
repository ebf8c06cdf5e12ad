package gpus

import (
	"slices"
	"testing"

	"supercargo.dev/supercargo/internal/packing"
)

// room is a node with the given CPU and devices, and memory for anything.
func room(milliCPU int64, devices ...int64) Node {
	return Node{MilliCPU: milliCPU, MemoryBytes: 1 << 40, Devices: devices}
}

func TestAShareFitsOnOneDevice(t *testing.T) {
	tests := []struct {
		name string
		node Node
		r    Request
		fits bool
		take []int64 // the devices afterwards
	}{
		{"enough together, on no device enough", room(8000, 500, 500), Request{MilliCPU: 1000, Milli: 600}, false, []int64{0, 500}},
		{"the tightest device takes it", room(8000, 1000, 700, 600), Request{MilliCPU: 1000, Milli: 600}, true, []int64{1000, 700, 0}},
		{"whole devices", room(8000, 1000, 700, 1000), Request{MilliCPU: 1000, Milli: 2000}, true, []int64{0, 700, 0}},
		{"a part of a device more is a whole one", room(8000, 1000, 700), Request{MilliCPU: 1000, Milli: 1500}, false, []int64{0, 0}},
		{"the CPU lacks", room(500, 1000), Request{MilliCPU: 1000, Milli: 100}, false, []int64{900}},
		{"the memory lacks", room(8000, 1000), Request{MemoryBytes: 1<<40 + 1, Milli: 100}, false, []int64{900}},
		{"no GPUs requested", room(8000), Request{MilliCPU: 1000}, true, nil},
		{"no GPUs there", room(8000), Request{MilliCPU: 1000, Milli: 100}, false, nil},
	}
	for _, tt := range tests {
		if fits := tt.node.Fits(tt.r); fits != tt.fits {
			t.Errorf("%s: fits is %v", tt.name, fits)
		}
		tt.node.Take(tt.r)
		if !slices.Equal(tt.node.Devices, tt.take) {
			t.Errorf("%s: the devices have %v, want %v", tt.name, tt.node.Devices, tt.take)
		}
	}
}

func TestDevicesDoNotDependOnTheOrderOfPods(t *testing.T) {
	pods := []Request{{Milli: 300}, {Milli: 1000}, {Milli: 700}, {Milli: 200}}
	want := []int64{0, 0, 800}
	for range 4 {
		pods = append(pods[1:], pods[0])
		if got := Devices(3, pods); !slices.Equal(got, want) {
			t.Errorf("the devices have %v with %v, want %v", got, pods, want)
		}
	}
	if pods[0].Milli != 300 {
		t.Error("the pods of the caller were sorted")
	}
}

func TestUnusable(t *testing.T) {
	large, share, cpu := Request{MilliCPU: 4000, Milli: 2000}, Request{MilliCPU: 1000, Milli: 600}, Request{MilliCPU: 1000}
	tests := []struct {
		name string
		mix  Mix
		node Node
		want float64
	}{
		{"no pods", nil, room(8000, 1000), 0},
		{"nothing free", Mix{{share, 1}}, room(8000, 0), 0},
		{"all can be used", Mix{{share, 1}}, room(8000, 1000, 600), 0},
		{"a device has less than the share", Mix{{share, 1}}, room(8000, 1000, 500), 500},
		{"one device too few", Mix{{large, 1}}, room(8000, 1000, 500), 1500},
		{"the CPU lacks", Mix{{large, 1}}, room(2000, 1000, 1000), 2000},
		{"a pod without GPUs uses none", Mix{{cpu, 1}}, room(2000, 1000), 1000},
		{"on average", Mix{{share, 3}, {large, 1}}, room(8000, 1000, 500), (3*500 + 1500) / 4.},
	}
	for _, tt := range tests {
		if got := tt.mix.Unusable(&tt.node); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestMixCountsByGPUs(t *testing.T) {
	many, few, none := Request{MilliCPU: 1, Milli: 100}, Request{MilliCPU: 1, Milli: 8000}, Request{MilliCPU: 1}
	got := MixOf(map[Request]int64{many: 50, few: 1, none: 100, {Milli: 1}: 0})
	if want := (Mix{{few, 8000}, {many, 5000}}); !slices.Equal(got, want) {
		t.Errorf("the mix is %v, want %v", got, want)
	}
	kinds := map[Request]int64{}
	for i := range int64(100) {
		kinds[Request{Milli: i + 1}] = 1
	}
	if got := MixOf(kinds); len(got) != maxKinds || got[0].Milli != 100 {
		t.Errorf("of 100 kinds, %d are in the mix, the first with %d", len(got), got[0].Milli)
	}
}

// named returns nodes for the plain order, the first the tightest.
func named(names ...string) []packing.Node {
	nodes := make([]packing.Node, len(names))
	for i, name := range names {
		nodes[i] = packing.Node{Name: name, Free: packing.Size{MemoryBytes: int64(i + 1), MilliCPU: 1}}
	}
	return nodes
}

func TestScoresPreferTheLeastGrowth(t *testing.T) {
	mix := MixOf(map[Request]int64{{MilliCPU: 1000, Milli: 1000}: 10, {MilliCPU: 1000, Milli: 500}: 10})
	half := Request{MilliCPU: 1000, Milli: 500}
	rooms := []Node{
		room(8000, 1000, 1000), // breaks a whole device
		room(8000, 500, 1000),  // uses the half that is free
		room(8000, 500),        // the same
		room(1000, 500, 1000),  // leaves a device without CPU
	}
	got := Scores(named("a", "b", "c", "d"), rooms, half, mix, packing.FitScores)
	if got[1] != packing.BestScore || got[2] != packing.MaxOtherScore {
		t.Errorf("the scores are %v: the tightest of the nodes on which least is lost must have 100, the other 99", got)
	}
	if got[0] >= got[2] || got[3] != 0 {
		t.Errorf("the scores are %v: the more is lost, the less they must be", got)
	}
	rooms = []Node{room(8000, 1000, 1000), room(8000, 600, 1000)}
	if got := Scores(named("a", "b"), rooms, Request{MilliCPU: 1000, Milli: 600}, nil, packing.FitScores); got[1] != packing.BestScore {
		t.Errorf("the scores are %v without other pods: those like the pod itself must count", got)
	}
	if got := Scores(nil, nil, half, mix, packing.FitScores); len(got) != 0 {
		t.Errorf("no nodes have scores %v", got)
	}
}

func TestScoresDoNotChangeTheMix(t *testing.T) {
	r := Request{MilliCPU: 1, Milli: 500}
	mix := Mix{{r, 500}}
	Scores(named("a"), []Node{room(8000, 1000)}, r, mix, packing.FitScores)
	if mix[0].Weight != 500 {
		t.Error("the mix of the caller was changed")
	}
}

func TestSpareLeavesNodesWithGPUs(t *testing.T) {
	nodes := named("tight-gpu", "tight", "loose-gpu", "loose")
	has := func(at int) bool { return at%2 == 0 }
	got := Spare(nodes, has, packing.FitScores)
	if got[1] != packing.BestScore || got[3] <= got[0] || got[0] <= got[2] {
		t.Errorf("the scores are %v: nodes without GPUs must come first, then both by fit", got)
	}
	for _, all := range []bool{false, true} {
		if got := Spare(nodes, func(int) bool { return all }, packing.FitScores); !slices.Equal(got, packing.FitScores(nodes)) {
			t.Errorf("nodes of one sort have scores %v, want those by fit", got)
		}
	}
}

func BenchmarkScores(b *testing.B) {
	kinds := map[Request]int64{}
	for i := range int64(maxKinds) {
		kinds[Request{MilliCPU: 1000 * (i + 1), Milli: 100 * (i%10 + 1)}] = i + 1
	}
	mix := MixOf(kinds)
	nodes, rooms := make([]packing.Node, 1200), make([]Node, 1200)
	for i := range nodes {
		n := int64(i)
		nodes[i] = packing.Node{Free: packing.Size{MemoryBytes: n, MilliCPU: n}}
		rooms[i] = room(10_000+10*n, 1000, 1000, n%1000, 1000, 0, 500, 1000, 1000)
	}
	for b.Loop() {
		Scores(nodes, rooms, Request{MilliCPU: 1000, Milli: 500}, mix, packing.FitScores)
	}
}
