package tariff

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func hours(h float64) time.Time { return noon.Add(time.Duration(h * float64(time.Hour))) }

const file = `zone,time,grams_per_kwh
fr,2026-01-01T12:00:00Z,50
pl,2026-01-01T12:00:00Z,700
pl,2026-01-01T15:00:00+01:00,600
,2026-01-01T12:00:00Z,300
`

func TestEnergyCostsWhatItsTimeAndPlaceCost(t *testing.T) {
	read, err := Read(strings.NewReader(file), "grams_per_kwh")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, zone   string
		tariff       Tariff
		from, to     float64 // hours after noon
		cost, priced float64
	}{
		{"one value", "fr", read, 0, 1, 100, 1},
		{"the last continues", "fr", read, 1000, 1001, 100, 1},
		{"across a change, at 14:00 UTC", "pl", read, 1, 5, 2 * (700*0.25 + 600*0.75), 1},
		{"until a change", "pl", read, 1, 2, 1400, 1},
		{"from a change", "pl", read, 2, 3, 1200, 1},
		{"a zone without values", "de", read, 0, 1, 600, 1},
		{"before the first value", "fr", read, -2, -1, 0, 0},
		{"from before the first value", "fr", read, -3, 1, 25, 0.25},
		{"one moment", "pl", read, 3, 3, 1200, 1},
		{"one moment before all", "pl", read, -3, -3, 0, 0},
		{"flat", "pl", Flat(0.25), -3, 9, 0.5, 1},
		{"nothing is known", "pl", Tariff{}, 0, 1, 0, 0},
	}
	for _, tc := range tests {
		cost, priced := tc.tariff.Of(2*3.6e6, tc.zone, hours(tc.from), hours(tc.to))
		if !(math.Abs(cost-tc.cost) <= 1e-9) || !(math.Abs(priced-tc.priced) <= 1e-9) {
			t.Errorf("%s: %v for %v of it, want %v for %v", tc.name, cost, priced, tc.cost, tc.priced)
		}
	}
}

// TestCostsAddUp checks that splitting the time of an even use does not change the cost.
func TestCostsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows strings.Builder
		rows.WriteString("time,v\n")
		for _, minute := range rapid.SliceOfNDistinct(rapid.IntRange(0, 600), 1, 12, rapid.ID).Draw(t, "minutes") {
			rows.WriteString(noon.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339) + "," + rapid.SampledFrom([]string{"-1", "0", "0.3", "250"}).Draw(t, "value") + "\n")
		}
		tariff, err := Read(strings.NewReader(rows.String()), "v")
		if err != nil {
			t.Fatal(err)
		}
		a := rapid.IntRange(0, 600).Draw(t, "from")
		b := a + rapid.IntRange(1, 300).Draw(t, "first")
		c := b + rapid.IntRange(1, 300).Draw(t, "second")
		at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
		part := func(from, to int) energy.Joules { return energy.Joules(to-from) * 60 * 100 } // 100 W
		all, pricedAll := tariff.Of(part(a, c), "z", at(a), at(c))
		one, pricedOne := tariff.Of(part(a, b), "z", at(a), at(b))
		two, pricedTwo := tariff.Of(part(b, c), "z", at(b), at(c))
		if math.Abs(all-one-two) > 1e-9 {
			t.Fatalf("%v is not %v and %v", all, one, two)
		}
		if want := (pricedOne*float64(b-a) + pricedTwo*float64(c-b)) / float64(c-a); math.Abs(pricedAll-want) > 1e-9 {
			t.Fatalf("%v of it is priced, want %v", pricedAll, want)
		}
	})
}

func TestTariffsThatCannotBeReadAreRefused(t *testing.T) {
	const header = "time,zone,dollars_per_kwh\n"
	tests := []struct {
		name, text string
		says       []string
	}{
		{"empty", "", []string{"header"}},
		{"no rows", header, []string{"no rows"}},
		{"a column is missing", "time,zone,grams\n", []string{"dollars_per_kwh", "grams"}},
		{"no time", header + "today,x,1\n", []string{"line 2", "time", `"today"`}},
		{"no number", header + "2026-01-01T00:00:00Z,x,1\n2026-01-02T00:00:00Z,x,cheap\n", []string{"line 3", "dollars_per_kwh", `"cheap"`}},
		{"NaN", header + "2026-01-01T00:00:00Z,x,NaN\n", []string{"line 2"}},
		{"infinite", header + "2026-01-01T00:00:00Z,x,-Inf\n", []string{"line 2"}},
		{"twice at a moment", header + "2026-01-01T00:00:00Z,x,1\n2026-01-01T01:00:00+01:00,x,2\n", []string{`zone "x"`, "two values"}},
		{"a cell too few", header + "2026-01-01T00:00:00Z,1\n", []string{"line 2"}},
	}
	for _, tc := range tests {
		_, err := Read(strings.NewReader(tc.text), "dollars_per_kwh")
		for _, part := range tc.says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want one that says %q", tc.name, err, part)
			}
		}
	}
}

// TestWholeTimeIsPricedOnceAtMost has hours whose shares of the time sum to more than one in floating-point numbers.
func TestWholeTimeIsPricedOnceAtMost(t *testing.T) {
	text := "time,dollars_per_kwh\n"
	for i := range 9 {
		text += hours(float64(i)).Format(time.RFC3339) + ",0.1\n"
	}
	read, err := Read(strings.NewReader(text), Dollars.Column())
	if err != nil {
		t.Fatal(err)
	}
	if _, priced := read.Of(3.6e6, "", hours(0), hours(9)); priced > 1 || priced < 0.999 {
		t.Errorf("%v of nine hours is priced, want all", priced)
	}
}

// FuzzRead checks that costs are finite and that at most all energy is priced.
func FuzzRead(f *testing.F) {
	f.Add(file, "pl")
	f.Add("time,grams_per_kwh\n2026-01-01T12:00:00Z,-5\n", "")
	f.Fuzz(func(t *testing.T, text, zone string) {
		read, err := Read(strings.NewReader(text), "grams_per_kwh")
		if err != nil {
			return
		}
		cost, priced := read.Of(3.6e6, zone, noon.AddDate(-1, 0, 0), noon.AddDate(1, 0, 0))
		if math.IsNaN(cost) || math.IsInf(cost, 0) || !(priced >= 0 && priced <= 1) {
			t.Errorf("%v, %v of it", cost, priced)
		}
	})
}

func TestAPriceHoldsUntilTheNextOrUntilItExpires(t *testing.T) {
	read, err := Read(strings.NewReader(file), Grams.Column())
	if err != nil {
		t.Fatal(err)
	}
	none := math.NaN()
	tests := []struct {
		name, zone string
		tariff     Tariff
		at         float64 // hours after noon
		longest    time.Duration
		want       float64
	}{
		{"the moment it begins", "fr", read, 0, time.Hour, 50},
		{"as long as allowed", "fr", read, 1, time.Hour, 50},
		{"longer", "fr", read, 1.001, time.Hour, none},
		{"before all", "fr", read, -0.001, time.Hour, none},
		{"until the next", "pl", read, 1.999, 24 * time.Hour, 700},
		{"from the next on", "pl", read, 2, 24 * time.Hour, 600},
		{"everywhere", "de", read, 3, 24 * time.Hour, 300},
		{"what holds everywhere expires", "de", read, 25, 24 * time.Hour, none},
		{"a flat one never does", "de", Flat(0.2), 1e5, time.Hour, 0.2},
		{"nothing is known", "fr", Tariff{}, 1, time.Hour, none},
	}
	for _, tc := range tests {
		got := tc.tariff.At(tc.zone, hours(tc.at), tc.longest)
		if got.Known == math.IsNaN(tc.want) || got.Known && got.PerKWh != tc.want {
			t.Errorf("%s: %+v, want %v", tc.name, got, tc.want)
		}
	}
	if priced, without := read.Zones(hours(24.5), 23*time.Hour); priced != 1 || without != 2 {
		t.Errorf("%d zones have a price and %d none, want 1 and 2", priced, without)
	}
}

// TestAPriceIsWhatAMomentOfEnergyCosts checks that the price at a time is the cost of a kWh used at that time, which is
// calculated in another way.
func TestAPriceIsWhatAMomentOfEnergyCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := map[int]bool{}
		text := "time,dollars_per_kwh\n"
		for i := range rapid.IntRange(1, 20).Draw(t, "values") {
			if at := rapid.IntRange(-50, 50).Draw(t, "from"); !steps[at] {
				steps[at] = true
				text += hours(float64(at)).Format(time.RFC3339) + "," + string(rune('0'+i%10)) + "\n"
			}
		}
		read, err := Read(strings.NewReader(text), Dollars.Column())
		if err != nil {
			t.Fatal(err)
		}
		at := hours(float64(rapid.IntRange(-60, 60).Draw(t, "at")))
		cost, known := read.Of(3.6e6, "z", at, at)
		if got := read.At("z", at, 1000*time.Hour); got.Known != (known == 1) || got.Of(3.6e6) != cost {
			t.Fatalf("at %v: %+v, want %v, %v of\n%s", at, got, cost, known, text)
		}
	})
}

func TestThePriceOfATimeIsTheMeanAsFarAsValuesReach(t *testing.T) {
	read, err := Read(strings.NewReader(file), Grams.Column())
	if err != nil {
		t.Fatal(err)
	}
	none := math.NaN()
	tests := []struct {
		name, zone string
		tariff     Tariff
		from, to   float64 // hours after noon
		want       float64
	}{
		{"one value", "fr", read, 0, 5, 50},
		{"across a change", "pl", read, 1, 5, 700*0.25 + 600*0.75},
		{"beyond the last value, which holds for 23 h", "pl", read, 1, 1000, (700 + 600*23) / 24.0},
		{"no time", "pl", read, 1, 1, 700},
		{"the wrong way round", "pl", read, 1, 0, 700},
		{"to the end of what holds", "pl", read, 25, 30, 600},
		{"from a moment without a price", "pl", read, -1, 5, none},
		{"from one after all have expired", "pl", read, 26, 30, none},
		{"a zone without values", "de", read, 0, 1, 300},
		{"flat", "de", Flat(0.2), 0, 1e5, 0.2},
		{"nothing is known", "de", Tariff{}, 0, 1, none},
	}
	for _, tc := range tests {
		got := tc.tariff.Over(tc.zone, hours(tc.from), hours(tc.to), 23*time.Hour)
		if got.Known == math.IsNaN(tc.want) || got.Known && math.Abs(got.PerKWh-tc.want) > 1e-9 {
			t.Errorf("%s: %+v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestAmountsAreWrittenInTheirUnit(t *testing.T) {
	for want, got := range map[string]string{
		"$0.00123": Dollars.Format(0.0012345), "-$2": Dollars.Format(-2), "12.3 g CO2": Grams.Format(12.34), "-1 g CO2": Grams.Format(-1),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAPriceCostsNoAllocation(t *testing.T) {
	read, err := Read(strings.NewReader(file), Grams.Column())
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { read.At("pl", hours(1), time.Hour) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
