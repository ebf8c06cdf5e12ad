package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/karpenter"
)

// draw draws up to most pods, and flavors. Prices follow sizes, with noise.
func draw(r *rand.Rand, most int) ([]planfile.Pod, []planfile.Flavor) {
	var flavors []planfile.Flavor
	for i := range 1 + r.IntN(12) {
		cpu, ratio := int64(1)<<r.IntN(6), int64(2)<<r.IntN(3)
		var f planfile.Flavor
		f.Name, f.Arch = fmt.Sprintf("flavor-%02d", i), "amd64"
		if r.IntN(4) == 0 {
			f.Arch = "arm64"
		}
		f.Size = packing.Size{MilliCPU: cpu * 1000, MemoryBytes: cpu * ratio << 30}
		f.MaxPods = new(int64(8 + r.IntN(110)))
		f.MicroDollarsPerHour = cpu * (30_000 + 4_000*ratio) * int64(80+r.IntN(41)) / 100
		flavors = append(flavors, f)
	}
	var pods []planfile.Pod
	for i := range 1 + r.IntN(most) {
		var p planfile.Pod
		p.Name = fmt.Sprintf("pod-%03d", i)
		p.Size = packing.Size{MilliCPU: 50 * int64(1+r.IntN(60)), MemoryBytes: 64 << 20 * int64(1+r.IntN(64))}
		switch r.IntN(8) {
		case 0:
			p.Arch = "arm64"
		case 1:
			p.Arch = "amd64"
		}
		pods = append(pods, p)
	}
	return pods, flavors
}

// ours plans with the simulator's policy. It returns the number of machines by flavor, their price in micro-dollars per
// hour, and the number of pods that fit nowhere.
func ours(pods []planfile.Pod, flavors []planfile.Flavor) (machines map[string]int, price int64, unplaced int) {
	var pending []cluster.Pod
	for i := range pods {
		pending = append(pending, pods[i].Pod)
	}
	var sold []cluster.Flavor
	for i := range flavors {
		sold = append(sold, flavors[i].Flavor.Flavor)
	}
	s := karpenter.Solve(pending, nil, sold, len(pods))
	machines = map[string]int{}
	for _, c := range s.Claims {
		machines[c.Flavors[0].Name]++
		price += c.Flavors[0].MicroDollarsPerHour
	}
	return machines, price, len(s.Unplaced)
}

// stable is the number of planned machines up to which Karpenter's sort is stable. With more, a pod may go to another
// machine with equally many pods.
const stable = 12

// The simulator's policy karpenter launches the same machines as Karpenter's own scheduler. If there are more than 12,
// it may launch others of nearly the same price.
func TestThePolicyLaunchesWhatKarpenterLaunches(t *testing.T) {
	const cases, tolerance = 300, 0.08
	many, ourTotal, theirTotal := 0, 0.0, 0.0
	for seed := range uint64(cases) {
		most := 60
		if seed%3 == 0 {
			most = 400
		}
		pods, flavors := draw(rand.New(rand.NewPCG(seed, 0)), most)
		theirs, err := solve(t.Context(), pods, flavors)
		if err != nil {
			t.Fatal(err)
		}
		machines, price, unplaced := ours(pods, flavors)
		want := map[string]int{}
		for _, m := range theirs.Machines {
			want[m.Flavor] = m.Count
		}
		dollars, same := float64(price)/1e6, fmt.Sprint(machines) == fmt.Sprint(want)
		if len(theirs.Purchases) > stable {
			many++
			ourTotal += dollars
			theirTotal += theirs.PricePerHour
			same = math.Abs(dollars-theirs.PricePerHour) <= tolerance*theirs.PricePerHour
		}
		if !same || unplaced != len(theirs.Unplaceable) {
			t.Errorf("seed %d: %d pods, %d flavors: machines %v for $%.4f, %d unplaced; Karpenter launches %v for $%.4f, %d unplaced",
				seed, len(pods), len(flavors), machines, dollars, unplaced, want, theirs.PricePerHour, len(theirs.Unplaceable))
		}
	}
	t.Logf("%d cases, %d of them with more than %d machines, which cost $%.2f, Karpenter's $%.2f", cases, many, stable, ourTotal, theirTotal)
	if many == 0 || math.Abs(ourTotal-theirTotal) > 0.01*theirTotal {
		t.Errorf("in %d cases with many machines they cost $%.2f in all, Karpenter's $%.2f", many, ourTotal, theirTotal)
	}
}
