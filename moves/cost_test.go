package moves

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// naiveWorth tries all prices of CPU and memory at which two flavors, or one and one of the resources for nothing, have
// what they cost.
func naiveWorth(flavors []cluster.Flavor, cpu, memory float64) (most float64) {
	try := func(perCPU, perByte float64) {
		for _, f := range flavors {
			if perCPU*float64(f.Size.MilliCPU)+perByte*float64(f.Size.MemoryBytes) > float64(f.MicroDollarsPerHour)*(1+1e-9) {
				return
			}
		}
		most = max(most, perCPU*cpu+perByte*memory)
	}
	for _, f := range flavors {
		c1, m1, p1 := float64(f.Size.MilliCPU), float64(f.Size.MemoryBytes), float64(f.MicroDollarsPerHour)
		try(p1/c1, 0)
		try(0, p1/m1)
		for _, g := range flavors {
			c2, m2, p2 := float64(g.Size.MilliCPU), float64(g.Size.MemoryBytes), float64(g.MicroDollarsPerHour)
			det := c1*m2 - c2*m1
			if x, y := (p1*m2-p2*m1)/det, (c1*p2-c2*p1)/det; det != 0 && x >= 0 && y >= 0 {
				try(x, y)
			}
		}
	}
	return most
}

func TestPodsAreWorthTheMostThatPricesWithoutGainAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flavors := make([]cluster.Flavor, rapid.IntRange(1, 9).Draw(t, "flavors"))
		amount := rapid.Int64Range(1, 12)
		for i := range flavors {
			flavors[i].Size = packing.Size{MilliCPU: amount.Draw(t, "cpu"), MemoryBytes: amount.Draw(t, "memory")}
			flavors[i].MicroDollarsPerHour = amount.Draw(t, "price")
		}
		cpu, memory := rapid.Float64Range(0, 50).Draw(t, "cpuHours"), rapid.Float64Range(0, 50).Draw(t, "byteHours")
		got, want := newOnSale(flavors).worth(cpu, memory), naiveWorth(flavors, cpu, memory)
		if math.Abs(got-want) > 1e-6*max(1, want) {
			t.Fatalf("they are worth %v, want %v", got, want)
		}
	})
}

func TestWhereMachinesAreFreePodsAreWorthNothing(t *testing.T) {
	flavors := []cluster.Flavor{{Size: packing.Size{MilliCPU: 1, MemoryBytes: 1}, MicroDollarsPerHour: 1}, {Size: packing.Size{MilliCPU: 1, MemoryBytes: 1}}}
	if got := newOnSale(flavors).worth(5, 5); got != 0 {
		t.Errorf("they are worth %v, want nothing", got)
	}
	if got := newOnSale(nil).worth(5, 5); got != 0 {
		t.Errorf("without flavors they are worth %v, want nothing", got)
	}
}

func TestPodsThatNeedBothResourcesAreWorthMoreThanOneOfThemAlone(t *testing.T) {
	flavors := []cluster.Flavor{
		{Size: packing.Size{MilliCPU: 4000, MemoryBytes: 1000}, MicroDollarsPerHour: 100},
		{Size: packing.Size{MilliCPU: 1000, MemoryBytes: 4000}, MicroDollarsPerHour: 100},
	}
	// A thousandth of a CPU and a byte cost 0.02 each where both flavors are used, and 0.025 where only one is.
	if got := newOnSale(flavors).worth(1000, 1000); math.Abs(got-40) > 1e-9 {
		t.Errorf("they are worth %v, want 40, not the 25 of CPU or memory alone", got)
	}
}
