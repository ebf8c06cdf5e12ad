package score

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/tariff"
)

func at(o Option, perKWh float64) Option {
	o.Price = tariff.Price{PerKWh: perKWh, Known: true}
	return o
}

func ranked(h float64, options ...Option) []int64 {
	results := make([]Result, len(options))
	Rank(h, options, results)
	scores := make([]int64, len(options))
	for i, r := range results {
		scores[i] = r.Score
	}
	return scores
}

// TestJoulesCountByTheirPrice compares with the term 1 - E/Emax calculated by hand, as 1 + 99·term.
func TestJoulesCountByTheirPrice(t *testing.T) {
	a, b, c := takes(1000, 50), takes(400, 200), takes(400, 200)
	before := at(takes(300, 200), 0.1)
	before.Before, before.BeforePrice = 100, tariff.Price{PerKWh: 0.2, Known: true}
	tests := []struct {
		name    string
		h       float64
		options []Option
		want    []int64
	}{
		{"the frugal machine is in a zone three times as dear: 1 - 1000/1200", 1, []Option{at(a, 100), at(b, 300)}, []int64{18, 1}},
		{"prices that are alike change nothing", 1, []Option{at(a, 300), at(b, 300)}, []int64{1, 60}},
		{"the same machine in a cleaner zone: 1 - 60/400", 1, []Option{at(b, 400), at(c, 60)}, []int64{1, 85}},
		{"runtime alone ignores prices", 0, []Option{at(a, 1), at(b, 300)}, []int64{100, 26}},
		{"a price that is not known is the mean, (1 + 0.5)/2", 1, []Option{at(b, 400), b, at(b, 200)}, []int64{1, 26, 51}},
		{"none is known", 1, []Option{a, b}, []int64{1, 60}},
		{"energy is free everywhere: joules count alike", 1, []Option{at(a, 0), at(b, 0)}, []int64{1, 60}},
		{"and where one is paid for using it", 1, []Option{at(a, -5), at(b, -3)}, []int64{1, 60}},
		{"free counts as a hundredth: 1 - 10/400", 1, []Option{at(a, 0), at(b, 300)}, []int64{98, 1}},
		{"below 0 as well", 1, []Option{at(a, -300), at(b, 300)}, []int64{98, 1}},
		{"what is no number is not known", 1, []Option{at(a, math.NaN()), at(b, math.Inf(1))}, []int64{1, 60}},
		{"nor is it beside others", 1, []Option{at(a, math.NaN()), at(b, 2)}, []int64{1, 60}},
		{"idle power costs too: (400 + 200·5)·1 against 1000·1.4", 1, []Option{at(a, 1.4), at(waking(b, 5), 1)}, []int64{1, 1}},
		{"the price of a machine that nobody trusts does not count", 1, []Option{at(a, 1), at(b, 1), at(trusted(1, 1, 0), 1e4)}, []int64{1, 60, 31}},
		{"what was taken before costs what it costs there: 300·0.1 + 100·0.2 of 1000·0.2", 1, []Option{at(a, 0.2), before}, []int64{1, 75}},
	}
	for _, tc := range tests {
		if got := ranked(tc.h, tc.options...); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestACostIsKnownWhereItsPricesAre(t *testing.T) {
	o := at(waking(takes(1.8e6, 18000), 100), 0.5) // 1.8 MJ and 100 W for 5 h: 1 kWh
	if got, known := o.Cost(); !known || math.Abs(got-0.5) > 1e-12 {
		t.Errorf("%v, %v; want 0.5", got, known)
	}
	o.Before = 3.6e6
	if _, known := o.Cost(); known {
		t.Error("the cost is known of energy whose price is not")
	}
	o.BeforePrice = tariff.Price{PerKWh: 2, Known: true}
	if got, known := o.Cost(); !known || math.Abs(got-2.5) > 1e-12 {
		t.Errorf("%v, %v; want 2.5", got, known)
	}
	if _, known := takes(1, 1).Cost(); known {
		t.Error("the cost is known without a price")
	}
}

// TestPricesAreAsIfMoreEnergyWereTaken checks that machines with prices score like machines that use energy times
// price, in any unit of price.
func TestPricesAreAsIfMoreEnergyWereTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "options")
		h, unit := rapid.Float64Range(0, 1).Draw(t, "h"), rapid.Float64Range(1e-6, 1e3).Draw(t, "unit")
		var priced, inUnit, product []Option
		for range n {
			o := trusted(rapid.Float64Range(1, 1000).Draw(t, "joules"), rapid.Float64Range(1, 1000).Draw(t, "seconds"), rapid.Float64Range(0, 1).Draw(t, "trust"))
			o.Waking = energy.Watts(rapid.Float64Range(0, 10).Draw(t, "waking"))
			price := rapid.Float64Range(1, 100).Draw(t, "price") // none is below a hundredth of another
			priced, inUnit = append(priced, at(o, price)), append(inUnit, at(o, price*unit))
			o.Energy.Value *= price
			o.Waking *= energy.Watts(price)
			product = append(product, o)
		}
		want := ranked(h, product...)
		for name, got := range map[string][]int64{"prices": ranked(h, priced...), "in another unit": ranked(h, inUnit...)} {
			for i := range want {
				if d := got[i] - want[i]; d < -1 || d > 1 { // rounding may differ by one
					t.Fatalf("%s: %v, want %v", name, got, want)
				}
			}
		}
	})
}

// TestWhateverThePricesScoresAreInRange checks for any prices that no score is out of range, and that the unknown
// machine is never the best.
func TestWhateverThePricesScoresAreInRange(t *testing.T) {
	anything := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, math.MaxFloat64, 5e-324}))
	rapid.Check(t, func(t *rapid.T) {
		options := []Option{{}}
		for range rapid.IntRange(1, 5).Draw(t, "options") {
			o := takes(rapid.Float64Range(1e-3, 1e9).Draw(t, "joules"), rapid.Float64Range(1e-3, 1e9).Draw(t, "seconds"))
			if rapid.Bool().Draw(t, "priced") {
				o = at(o, anything.Draw(t, "price"))
			}
			options = append(options, o)
		}
		got := ranked(rapid.Float64Range(0, 1).Draw(t, "h"), options...)
		for i, s := range got {
			if s < 0 || s > Best || i > 0 && s < least {
				t.Fatalf("scores %v", got)
			}
		}
		if got[0] >= slices.Max(got) {
			t.Fatalf("the unknown scores %d of %v", got[0], got)
		}
	})
}

func TestNodesOfOneTypeDifferByTheirPrice(t *testing.T) {
	of := func(v float64) profile.Model {
		return profile.Model{Terms: []profile.Term{profile.One}, Coefficients: []float64{v},
			Range: profile.Range{Most: profile.Size{MilliCPU: 4000, MemoryBytes: 4 << 30}, LeastValue: v, MostValue: v}}
	}
	machines := profile.Set{"xeon": {Profile: profile.Profile{Energy: of(1000), Runtime: of(50)}}}
	nodes := []Node{
		{Name: "dirty", MachineType: "xeon", Price: tariff.Price{PerKWh: 700, Known: true}},
		{Name: "clean", MachineType: "xeon", Price: tariff.Price{PerKWh: 35, Known: true}},
		{Name: "between", MachineType: "xeon", Price: tariff.Price{PerKWh: 350, Known: true}},
	}
	var names []string
	for _, l := range Compare(1, profile.Size{MilliCPU: 1000, MemoryBytes: 1 << 30}, nodes, machines, time.Time{}) {
		names = append(names, l.Node.Name)
	}
	if want := []string{"clean", "between", "dirty"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
