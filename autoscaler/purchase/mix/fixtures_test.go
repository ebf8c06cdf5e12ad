package mix

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/test/families"
)

const hour = time.Hour

func size(cpu, memory int64) packing.Size { return packing.Size{MilliCPU: cpu, MemoryBytes: memory} }

// item is billed for a day, and admitted everywhere.
func item(cpu, memory int64) Item {
	return Item{Size: size(cpu, memory), Paid: 24 * hour, Clique: None, Quota: None}
}

func timed(cpu, memory int64, paid time.Duration) Item {
	it := item(cpu, memory)
	it.Paid = paid
	return it
}

// bin holds any number of items of the first class.
func bin(cpu, memory, price int64) Bin {
	return Bin{Size: size(cpu, memory), Places: math.MaxInt64, MicroDollarsPerHour: price, Admits: "+--"}
}

// problemOf numbers the bins in the given order.
func problemOf(items []Item, bins ...Bin) *Problem {
	for i := range bins {
		bins[i].Number = i
	}
	slices.SortStableFunc(bins, func(a, b Bin) int { return cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour) })
	return New(&Input{Items: items, Bins: bins, Classes: make([]Class, 3)})
}

// problemOfFamily has items of one of the families and the bins of one of the catalogues, by index.
func problemOfFamily(t *testing.T, catalogue, family, n int) *Problem {
	t.Helper()
	flavors, err := families.Catalogues[catalogue].Flavors("../../../test/data")
	if err != nil {
		t.Fatal(err)
	}
	bins := make([]Bin, len(flavors))
	for i, f := range flavors {
		bins[i] = bin(f.Size.MilliCPU, f.Size.MemoryBytes, f.MicroDollarsPerHour)
		if f.MaxPods != nil {
			bins[i].Places = *f.MaxPods
		}
	}
	r := rand.New(rand.NewPCG(11, uint64(n)))
	items := make([]Item, n)
	for i := range items {
		items[i] = item(families.All[family].Draw(r))
	}
	return problemOf(items, bins...)
}

// held returns the number of items on the machines of a mix.
func held(m *Solution) int {
	n := 0
	for i := range m.machines {
		n += len(m.machines[i].kinds)
	}
	return n
}

// drawItems and drawBins keep numbers small, so that ties are common. Bins admit items of the first class and of one
// other.
func drawItems(t *rapid.T) []Item {
	items := make([]Item, rapid.IntRange(0, 14).Draw(t, "items"))
	for i := range items {
		items[i] = item(rapid.Int64Range(0, 7).Draw(t, "cpu"), rapid.Int64Range(0, 7).Draw(t, "memory"))
		items[i].Class = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "class")
		if minutes := rapid.IntRange(0, 3).Draw(t, "minutes"); minutes > 0 {
			items[i].Paid = time.Duration(minutes) * time.Minute
		}
	}
	return items
}

func drawBins(t *rapid.T) []Bin {
	bins := make([]Bin, rapid.IntRange(0, 5).Draw(t, "bins"))
	for i := range bins {
		bins[i] = bin(rapid.Int64Range(0, 12).Draw(t, "cpu"), rapid.Int64Range(0, 12).Draw(t, "memory"), rapid.Int64Range(1, 5).Draw(t, "price"))
		if most := rapid.Ptr(rapid.Int64Range(1, 3), true).Draw(t, "places"); most != nil {
			bins[i].Places = *most
		}
		bins[i].Admits = rapid.SampledFrom([]string{"++-", "+-+"}).Draw(t, "admits")
	}
	return bins
}

// fitting returns the items that some bin holds.
func fitting(items []Item, bins []Bin) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(it Item) bool {
		return !slices.ContainsFunc(bins, func(b Bin) bool { return b.Admits[it.Class] == Admitted && it.Size.Fits(b.Size) })
	})
}

// drawProblem draws a problem of up to most items, without a limit on machines. It has at least one item.
func drawProblem(t *rapid.T, most int) *Problem {
	bins := append(drawBins(t), bin(12, 12, 9))
	items := fitting(append(drawItems(t), item(3, 4)), bins)
	return problemOf(items[:min(len(items), most)], bins...)
}

// String says which items a machine holds.
func (m machine) String() string { return fmt.Sprint(m.offer, m.kinds) }

// drawMany draws up to 60 items of many or few kinds, so that the mix must be searched for.
func drawMany(t *rapid.T) []Item {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	kinds := 1 + r.IntN(rapid.SampledFrom([]int{3, 60}).Draw(t, "kinds"))
	items := make([]Item, ExactItems+1+r.IntN(48))
	for i := range items {
		of := rand.New(rand.NewPCG(r.Uint64N(uint64(kinds)), 1))
		items[i] = timed(of.Int64N(8), of.Int64N(8), time.Duration(1+of.IntN(4))*time.Minute)
		items[i].Class = []int{0, 0, 1, 2}[of.IntN(4)]
	}
	return items
}
