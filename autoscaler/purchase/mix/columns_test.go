package mix

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/test/draw"
)

func TestNoMachineIsWorthMoreThanItCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 15)
		var kinds []int32
		for k := range p.kinds {
			for range p.kinds[k].items {
				kinds = append(kinds, int32(k))
			}
		}
		kinds = rapid.Permutation(kinds).Draw(t, "order")
		m := p.newMachine(kinds[:rapid.IntRange(1, len(kinds)).Draw(t, "pods")])
		if m.offer < len(p.offers) && m.worth > p.scaledBill(&m) {
			t.Fatalf("pods worth %d on a machine for %d", m.worth, p.scaledBill(&m))
		}
	})
}

// TestPodsThatFillMachinesAreWorthWhatTheyCost guards against a worth that is uselessly low.
func TestPodsThatFillMachinesAreWorthWhatTheyCost(t *testing.T) {
	var items []Item
	for range 50 {
		items = append(items, item(1500, 500), item(500, 1500))
	}
	p := problemOf(items, bin(2000, 2000, 100), bin(9000, 9000, 900))
	m := p.newMachine([]int32{0, 1})
	if ratio := float64(m.worth) / float64(p.scaledBill(&m)); !(ratio > 0.999) {
		t.Errorf("pods that fill a machine are worth %.4f of it", ratio)
	}
}

func TestAKnapsackHoldsTheMostValuablePods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 7)
		values := make([]float64, len(p.kinds))
		for i := range values {
			values[i] = float64(rapid.IntRange(-1, 9).Draw(t, "value"))
		}
		at := rapid.IntRange(0, len(p.offers)-1).Draw(t, "offer")
		level := p.kinds[rapid.IntRange(0, len(p.kinds)-1).Draw(t, "level")].time
		r := newRelaxation(p)
		r.duals = values
		counts, value := r.fill(at, level)

		best := 0.0
		var try func(k int, m machine, value float64)
		try = func(k int, m machine, value float64) {
			o := &p.offers[at]
			if m.used.MilliCPU > o.Size.MilliCPU || m.used.MemoryBytes > o.Size.MemoryBytes || int64(len(m.kinds)) > o.places {
				return
			}
			best = max(best, value)
			if k == len(p.kinds) {
				return
			}
			try(k+1, m, value)
			for range p.kinds[k].items {
				if p.kinds[k].time > level || !p.has(p.kinds[k].on, at) {
					return
				}
				m.kinds = append(slices.Clone(m.kinds), int32(k))
				m.used.MilliCPU += p.kinds[k].size.MilliCPU
				m.used.MemoryBytes += p.kinds[k].size.MemoryBytes
				value += values[k]
				try(k+1, m, value)
			}
		}
		try(0, machine{}, 0)
		sum := 0.0
		for k, n := range counts {
			sum += float64(n) * values[k]
			if int(n) > len(p.kinds[k].items) {
				t.Fatalf("%d pods of %d", n, len(p.kinds[k].items))
			}
		}
		if sum != value || value != best {
			t.Fatalf("worth %v, says %v, best %v", sum, value, best)
		}
	})
}

func TestTheRelaxationIsTheCheapestInPartsOfMachines(t *testing.T) {
	tests := []struct {
		name   string
		cpu    []int64 // of the items of each kind
		number []int
		want   float64 // number of machines of 10 CPU
	}{
		{"half a machine for each pod", []int64{5}, []int{7}, 3.5},
		{"pairs that fill", []int64{6, 4}, []int{10, 10}, 10},
		{"the rest goes in pairs", []int64{6, 4}, []int{10, 16}, 13},
		{"nothing goes with these", []int64{6, 7}, []int{10, 10}, 20},
		{"three kinds fill", []int64{5, 3, 2}, []int{4, 4, 4}, 4},
		// 3 3 3, 4 4 and 3 3 4 fit; the last fills a machine: 6 of those, and one for the three remaining 3s.
		{"mixes of both", []int64{4, 3}, []int{6, 15}, 6 + 1},
	}
	for _, tc := range tests {
		var items []Item
		for i, cpu := range tc.cpu {
			for range tc.number[i] {
				items = append(items, item(cpu, 0))
			}
		}
		p := problemOf(items, bin(10, 10, 10))
		r := newRelaxation(p)
		r.solve(1_000_000)
		got := 0.0
		for _, c := range r.basis {
			got += c.number
		}
		if !(math.Abs(got-tc.want) < 1e-6) {
			t.Errorf("%s: %v machines, want %v", tc.name, got, tc.want)
		}
	}
}

// TestTheRelaxationIsNoMoreExpensiveThanTheBestMix compares with all mixes of whole machines. The best mix with fractions of
// machines costs no more than any of them.
func TestTheRelaxationIsNoMoreExpensiveThanTheBestMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 8)
		r := newRelaxation(p)
		r.solve(10_000_000)
		least := 0.0
		for _, c := range r.basis {
			least += c.number * c.cost
		}
		var about uint64
		best := p.exact(math.MaxInt)
		for i := range best.machines {
			about += p.scaledBill(&best.machines[i])
		}
		if least > float64(about)*(1+1e-5) {
			t.Fatalf("parts of machines cost %v, whole ones %v", least, about)
		}
		machines, waiting := r.roundDown()
		for _, m := range machines {
			for _, k := range m.kinds {
				waiting[k]++
			}
			if !p.holds(m.offer, &m.used, m.on, int64(len(m.kinds))) {
				t.Fatalf("over-filled: %+v", m)
			}
		}
		for k, n := range waiting {
			if int(n) != len(p.kinds[k].items) {
				t.Fatalf("%d pods of kind %d, want %d", n, k, len(p.kinds[k].items))
			}
		}
	})
}

// TestADiveOverfillsNothingAndLosesNoPod whatever the number of steps.
func TestADiveOverfillsNothingAndLosesNoPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 12)
		counts := p.counts()
		for i := range counts {
			counts[i] = rapid.Int32Range(0, counts[i]).Draw(t, "waiting")
		}
		steps := rapid.SampledFrom([]int{0, 1_000, 10_000_000}).Draw(t, "steps")
		machines, left, _ := p.dive(counts, steps)
		for _, m := range machines {
			for _, k := range m.kinds {
				left[k]++
			}
			if m.offer == len(p.offers) || !p.holds(m.offer, &m.used, m.on, int64(len(m.kinds))) {
				t.Fatalf("over-filled: %+v", m)
			}
		}
		if !slices.Equal(left, counts) {
			t.Fatalf("%v pods by kind on machines or left, want %v", left, counts)
		}
	})
}

// TestADiveWithStepsEnoughPlacesAllPods: of six pods of 4 and three of 3, machines of 10 hold two and three, or 3 and 3
// and 4.
func TestADiveWithStepsEnoughPlacesAllPods(t *testing.T) {
	var items []Item
	for i := range 9 {
		items = append(items, item(4-int64(i/6), 0))
	}
	p := problemOf(items, bin(10, 10, 10))
	machines, left, steps := p.dive(p.counts(), 10_000_000)
	if len(machines) != 4 || slices.ContainsFunc(left, func(n int32) bool { return n > 0 }) || steps == 0 {
		t.Errorf("%d machines in %d steps, %v pods left, want 4 machines and none", len(machines), steps, left)
	}
}

// bestPrice returns the least price of machines for the items, by trying every division among machines.
func bestPrice(items []Item, bins []Bin) int64 {
	best := int64(math.MaxInt64)
	var groups [][]Item
	var place func(at int)
	place = func(at int) {
		if at == len(items) {
			sum := int64(0)
			for _, g := range groups {
				price := cheapestBin(g, bins)
				if price < 0 {
					return
				}
				sum += price
			}
			best = min(best, sum)
			return
		}
		for i := range groups {
			groups[i] = append(groups[i], items[at])
			place(at + 1)
			groups[i] = groups[i][:len(groups[i])-1]
		}
		groups = append(groups, []Item{items[at]})
		place(at + 1)
		groups = groups[:len(groups)-1]
	}
	place(0)
	return best
}

// cheapestBin returns the price of the cheapest bin that holds the items, or -1.
func cheapestBin(items []Item, bins []Bin) int64 {
	best := int64(-1)
	for _, b := range bins {
		var cpu, memory int64
		ok := int64(len(items)) <= b.Places
		for _, it := range items {
			cpu, memory = cpu+it.Size.MilliCPU, memory+it.Size.MemoryBytes
			ok = ok && b.Admits[it.Class] == '+'
		}
		if ok && cpu <= b.Size.MilliCPU && memory <= b.Size.MemoryBytes && (best < 0 || b.MicroDollarsPerHour < best) {
			best = b.MicroDollarsPerHour
		}
	}
	return best
}

func TestTheBoundIsNoMoreThanTheBestMixCosts(t *testing.T) {
	reached := 0
	property := func(t *rapid.T) {
		bins := append(drawBins(t), bin(12, 12, 9))
		items := fitting(append(drawItems(t), item(3, 4)), bins)
		items = items[:min(len(items), 7)]
		for i := range items {
			items[i].Paid = 24 * hour
		}
		best := bestPrice(items, bins)
		p := problemOf(items, bins...)
		if least := p.Least(); least > best {
			t.Fatalf("bound %d, best %d", least, best)
		} else if least == best {
			reached++
		}
		r := newRelaxation(p)
		r.solve(rapid.IntRange(0, 100_000).Draw(t, "steps"))
		p.duals = r.feasibleDuals()
		if least := p.leastByColumns(p.counts()); least > best {
			t.Fatalf("bound by columns %d, best %d", least, best)
		}
	}
	draw.Fixed(t, 100, property)
	if reached == 0 {
		t.Error("no bound is reached")
	}
	rapid.Check(t, property)
}
