package mix

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
	"supercargo.dev/supercargo/internal/packing"
)

func TestFullMachinesAreWorthNoMoreThanTheirPrice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items, bins := drawMany(t), drawBins(t)
		items = fitting(items, bins)
		if len(items) == 0 {
			return
		}
		p := problemOf(items, bins...)
		// Any parts will do, including the computed ones.
		parts := p.pricing.parts
		if rapid.Bool().Draw(t, "any parts") {
			for i := range parts {
				draw := func(name string) float64 {
					return rapid.SampledFrom([]float64{0, 1, 0.3, 1e-9, math.Inf(1), math.NaN()}).Draw(t, name)
				}
				parts[i] = lp.Vector{draw("CPU"), draw("memory"), draw("place")}
			}
		}
		v := newPrices(parts, func(at int) uint64 { return p.offers[at].price << 20 })
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4))
		for at := range p.offers {
			var used packing.Size
			worth, n := uint64(0), int64(0)
			for range 40 {
				k := &p.kinds[r.IntN(len(p.kinds))]
				if now := used.Plus(k.size); p.holds(at, &now, k.on, n+1) {
					used, worth, n = now, worth+v.worth(p, k), n+1
				}
			}
			if worth > p.offers[at].price<<20 {
				t.Fatalf("pods worth %d on a machine for %d", worth, p.offers[at].price<<20)
			}
		}
	})
}

func TestSetsOfOffersMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offers := rapid.IntRange(1, 130).Draw(t, "offers")
		s := newSets(offers)
		numbers, members := []int32{anyOffer}, []map[int]bool{{}}
		for at := range offers {
			members[0][at] = true
		}
		for range rapid.IntRange(1, 12).Draw(t, "sets") {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
			has := map[int]bool{}
			var n int32
			if i, j := r.IntN(len(numbers)), r.IntN(len(numbers)); r.IntN(2) == 0 {
				for at := range offers {
					has[at] = members[i][at] && members[j][at]
				}
				n = s.meet(numbers[i], numbers[j])
			} else {
				for at := range offers {
					has[at] = r.IntN(3) > 0
				}
				n = s.number(s.make(func(at int) bool { return has[at] }))
			}
			for at := range offers {
				if s.has(n, at) != has[at] {
					t.Fatalf("set %d has %d: %v, want %v", n, at, s.has(n, at), has[at])
				}
			}
			numbers, members = append(numbers, n), append(members, has)
		}
	})
}

func TestBillsStopAtTheGreatest(t *testing.T) {
	most := bill{math.MaxUint64, math.MaxUint64}
	for _, b := range []bill{{0, 1}, {1, 0}, newBill(math.MaxUint64, math.MaxUint64), most} {
		if got := most.plus(b); got != most {
			t.Errorf("the greatest + %v = %v", b, got)
		}
	}
	if got, want := (bill{1, math.MaxUint64}).plus(bill{1, 1}), (bill{3, 0}); got != want {
		t.Errorf("a sum with a carry is %v, want %v", got, want)
	}
}

// TestBillsAreExact compares with big integers.
func TestBillsAreExact(t *testing.T) {
	whole := func(b bill) *big.Int {
		x := new(big.Int).Lsh(new(big.Int).SetUint64(b.high), 64)
		return x.Add(x, new(big.Int).SetUint64(b.low))
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
		a, b := newBill(draw("price"), draw("time")), newBill(draw("price"), draw("time"))
		if a.compare(b) != whole(a).Cmp(whole(b)) {
			t.Fatalf("%v and %v compare as %d", a, b, a.compare(b))
		}
		want := new(big.Int).Add(whole(a), whole(b))
		if most := whole(bill{math.MaxUint64, math.MaxUint64}); want.Cmp(most) > 0 {
			want = most
		}
		if got := whole(a.plus(b)); got.Cmp(want) != 0 {
			t.Fatalf("%v + %v = %v, want %v", a, b, got, want)
		}
	})
}
