package profile

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
)

// law is a machine type's true behaviour: seconds and joules by cores and GiB.
type law struct {
	name            string
	seconds, joules func(cpu, memory float64) float64
}

var laws = []law{
	{"the same for all", func(_, _ float64) float64 { return 60 }, func(_, _ float64) float64 { return 900 }},
	{"linear", func(c, m float64) float64 { return 200 - 20*c + 3*m }, func(c, m float64) float64 { return 50 + 30*c + 5*m }},
	{"with an interaction", func(c, m float64) float64 { return 20 + c + m + 4*c*m }, func(c, m float64) float64 { return 10 + 2*c*m }},
	{"spread over the CPUs", func(c, m float64) float64 { return 5 + 120/c + 2*m }, func(c, m float64) float64 { return 400 + 30/c + 8*m }},
}

func size(cpu, memory float64) Size {
	return Size{MilliCPU: int64(cpu * 1000), MemoryBytes: int64(memory * gib)}
}

// probe returns three samples per size, with errors of the given spread.
func (l law) probe(cpus, memories []float64, noise float64) []Sample {
	random := rand.New(rand.NewPCG(7, 7))
	var samples []Sample
	for _, c := range cpus {
		for _, m := range memories {
			for range 3 {
				samples = append(samples, Sample{
					Size:    size(c, m),
					Runtime: time.Duration(l.seconds(c, m) * (1 + noise*random.NormFloat64()) * 1e9),
					Energy:  energy.Joules(l.joules(c, m) * (1 + noise*random.NormFloat64())),
				})
			}
		}
	}
	return samples
}

var cpus, memories = []float64{0.25, 0.5, 1, 2, 4}, []float64{0.5, 1, 2, 4}

// TestUnseenSizesArePredicted requires errors within a tenth at sizes between those of the probes.
func TestUnseenSizesArePredicted(t *testing.T) {
	for _, l := range laws {
		for _, spoil := range []bool{false, true} {
			samples := l.probe(cpus, memories, 0.03)
			if spoil {
				for i := range samples {
					if i%12 == 5 {
						samples[i].Runtime *= 20 // a disturbed probe
						samples[i].Energy *= 20
					}
				}
			}
			p, unusable, err := Learn(samples)
			if err != nil || unusable != 0 {
				t.Fatalf("%s: %v, %d unusable", l.name, err, unusable)
			}
			for _, c := range []float64{0.3, 0.75, 1.5, 3} {
				for _, m := range []float64{0.75, 1.5, 3} {
					seconds, joules := p.Runtime.Predict(size(c, m), 0), p.Energy.Predict(size(c, m), 0)
					if off := seconds.Value/l.seconds(c, m) - 1; !(math.Abs(off) <= 0.1) || seconds.Trust != 1 || seconds.Doubts != 0 {
						t.Errorf("%s (invalid: %t): runtime at %v CPU, %v GiB is off by %.1f %%: %+v", l.name, spoil, c, m, 100*off, seconds)
					}
					if off := joules.Value/l.joules(c, m) - 1; !(math.Abs(off) <= 0.1) || joules.Trust != 1 {
						t.Errorf("%s (invalid: %t): energy at %v CPU, %v GiB is off by %.1f %%: %+v", l.name, spoil, c, m, 100*off, joules)
					}
				}
			}
		}
	}
}

func TestTermsAreThoseThatTheDataNeed(t *testing.T) {
	want := [][]Term{{One}, {One, CPU, Memory}, {One, CPU, Memory, CPUTimesMemory}, {One, OnePerCPU, Memory}}
	for i, l := range laws {
		p, _, err := Learn(l.probe(cpus, memories, 0.002))
		if err != nil || !slices.Equal(p.Runtime.Terms, want[i]) {
			t.Errorf("%s: terms %v, %v; want %v", l.name, p.Runtime.Terms, err, want[i])
		}
		if q := p.Runtime.Quality; q.Samples != 60 || q.Sizes != 20 || !(q.Spread < 0.01) || i > 0 && !(q.RSquared > 0.99) {
			t.Errorf("%s: quality %+v", l.name, q)
		}
	}
}

func TestTheOrderOfSamplesDoesNotMatter(t *testing.T) {
	samples := laws[3].probe(cpus, memories, 0.05)
	want, _, err := Learn(samples)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 1))
	for range 5 {
		random.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
		if got, _, err := Learn(samples); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
}

func TestSamplesOfOneSizeAreHeldOutTogether(t *testing.T) {
	var samples []Sample
	for i := range 60 {
		samples = append(samples, Sample{Size: Size{MilliCPU: int64(i / 5)}})
	}
	parts, sizes := foldsOf(samples)
	if sizes != 12 || slices.Max(parts) != maxFolds-1 || slices.Min(parts) != 0 {
		t.Errorf("%d sizes in parts %v; want 12 in ten parts", sizes, parts)
	}
	for i, part := range parts {
		if part != parts[i/5*5] {
			t.Errorf("sample %d is in part %d, the first of its size in %d", i, part, parts[i/5*5])
		}
	}
}

func TestSamplesThatCannotBeArePassedOver(t *testing.T) {
	good := laws[1].probe(cpus, memories, 0.01)
	want, _, err := Learn(good)
	if err != nil {
		t.Fatal(err)
	}
	bad := []Sample{
		{Size: size(1, 1), Runtime: 0, Energy: 5}, {Size: size(1, 1), Runtime: -time.Second, Energy: 5}, {Size: size(1, 1), Runtime: time.Second, Energy: 0}, {Size: size(1, 1), Runtime: time.Second, Energy: -3},
		{Size: size(1, 1), Runtime: time.Second, Energy: energy.Joules(math.NaN())}, {Size: size(1, 1), Runtime: time.Second, Energy: energy.Joules(math.Inf(1))}, {Size: size(-1, 1), Runtime: time.Second, Energy: 5}, {Size: size(1, -1), Runtime: time.Second, Energy: 5},
	}
	got, unusable, err := Learn(append(slices.Clone(bad), good...))
	if err != nil || unusable != len(bad) || !reflect.DeepEqual(got, want) {
		t.Errorf("%d unusable, %v; want %d and the same profile", unusable, err, len(bad))
	}
	if _, unusable, err := Learn(append(slices.Clone(bad), good[:3]...)); !errors.Is(err, ErrTooFew) || unusable != len(bad) {
		t.Errorf("%v, %d unusable; want ErrTooFew", err, unusable)
	}
}

func TestOneSizeGivesItsUsualValue(t *testing.T) {
	samples := laws[0].probe([]float64{1}, []float64{1}, 0)
	samples = append(samples, Sample{Size: size(1, 1), Runtime: time.Hour, Energy: 1e6})
	p, _, err := Learn(samples)
	if err != nil || math.Abs(p.Runtime.Predict(size(1, 1), 0).Value/60-1) > 0.01 || p.Runtime.Quality.Sizes != 1 {
		t.Errorf("%+v, %v; want 60 s", p.Runtime, err)
	}
	if far := p.Runtime.Predict(size(8, 1), 0); far.Trust != 0 || far.Doubts != CPUOutside {
		t.Errorf("eight times the CPU: %+v, want no trust", far)
	}
}

// sound returns a model of 10 + 5·cpu, learned from 1 to 3 cores and 1 to 3 GiB.
func sound() Model {
	return Model{Terms: []Term{One, CPU}, Coefficients: []float64{10, 5}, Range: Range{size(1, 1), size(3, 3), 15, 25}, Quality: Quality{Samples: 10, Sizes: 5, Spread: 0.05}}
}

func TestTrustShrinksByEachDoubt(t *testing.T) {
	const day = 24 * time.Hour
	tests := []struct {
		name   string
		size   Size
		spread float64
		age    time.Duration
		want   Prediction
	}{
		{"within the range", size(2, 2), 0.05, 0, Prediction{20, 1, 0}},
		{"at its ends", size(3, 1), 0.05, 0, Prediction{25, 1, 0}},
		{"half a width above it", size(4, 2), 0.05, 0, Prediction{30, 0.5, CPUOutside}},
		{"a quarter below it", size(2, 0.5), 0.05, 0, Prediction{20, 0.75, MemoryOutside}},
		{"a width above it", size(5, 2), 0.05, 0, Prediction{35, 0, CPUOutside}},
		{"both", size(4, 0.5), 0.05, 0, Prediction{30, 0.375, CPUOutside | MemoryOutside}},
		{"a usual error of a tenth", size(2, 2), 0.1, 0, Prediction{20, 1, 0}},
		{"of three tenths", size(2, 2), 0.3, 0, Prediction{20, 0.5, PoorFit}},
		{"of a half and more", size(2, 2), 0.7, 0, Prediction{20, 0, PoorFit}},
		{"a week old", size(2, 2), 0.05, 7 * day, Prediction{20, 1, 0}},
		{"eleven days old", size(2, 2), 0.05, 10*day + 12*time.Hour, Prediction{20, 0.5, Old}},
		{"a year old", size(2, 2), 0.05, 365 * day, Prediction{20, 0, Old}},
		{"learned in the future, by a clock that is ahead", size(2, 2), 0.05, -time.Hour, Prediction{20, 1, 0}},
		{"out of all proportion", size(100, 2), 0.05, 0, Prediction{50, 0, CPUOutside | Confined}},
	}
	for _, tc := range tests {
		m := sound()
		m.Quality.Spread = tc.spread
		if got := m.Predict(tc.size, tc.age); got.Value != tc.want.Value || !(math.Abs(got.Trust-tc.want.Trust) < 1e-9) || got.Doubts != tc.want.Doubts {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	narrow := sound()
	narrow.Range.Least.MilliCPU, narrow.Range.Most.MilliCPU = 2000, 2000
	if got := narrow.Predict(size(2.5, 2), 0); got.Trust != 0.5 {
		t.Errorf("half a core above a range of no width at 2 cores: %+v, want half the trust", got)
	}
	if got := (CPUOutside | Old).String(); got != "CPU outside the learned range, old" {
		t.Errorf("doubts %q", got)
	}
}

func TestModelsThatCannotPredictAreRefused(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name  string
		spoil func(*Model)
		says  string
	}{
		{"no terms", func(m *Model) { m.Terms, m.Coefficients = nil, nil }, "terms"},
		{"a coefficient too few", func(m *Model) { m.Coefficients = m.Coefficients[:1] }, "terms"},
		{"an unknown term", func(m *Model) { m.Terms[1] = "cpu^2" }, "terms[1]"},
		{"a coefficient that is NaN", func(m *Model) { m.Coefficients[1] = nan }, "terms[1]"},
		{"an infinite one", func(m *Model) { m.Coefficients[0] = math.Inf(-1) }, "terms[0]"},
		{"a range the wrong way round", func(m *Model) { m.Range.Most.MilliCPU = 5 }, "CPU"},
		{"a range from below 0", func(m *Model) { m.Range.Least.MemoryBytes = -1 }, "memory"},
		{"values from 0", func(m *Model) { m.Range.LeastValue = 0 }, "value"},
		{"values that are NaN", func(m *Model) { m.Range.MostValue = nan }, "value"},
		{"values without end", func(m *Model) { m.Range.MostValue = math.MaxFloat64 }, "value"},
		{"a spread that is NaN", func(m *Model) { m.Quality.Spread = nan }, "spread"},
		{"a negative spread", func(m *Model) { m.Quality.Spread = -0.1 }, "spread"},
	}
	for _, tc := range tests {
		m := sound()
		tc.spoil(&m)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, want one that says %q", tc.name, err, tc.says)
		}
	}
	if err := sound().Validate(); err != nil {
		t.Error(err)
	}
}

// TestPredictionsAreAboveZeroWhateverTheModel uses any valid model at any size.
func TestPredictionsAreAboveZeroWhateverTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Model{Terms: rapid.SliceOfNDistinct(rapid.SampledFrom(Terms()), 1, 6, rapid.ID).Draw(t, "terms"), Range: sound().Range}
		for range m.Terms {
			m.Coefficients = append(m.Coefficients, rapid.Float64().Draw(t, "coefficient"))
		}
		if err := m.Validate(); err != nil {
			return
		}
		s := Size{rapid.Int64().Draw(t, "cpu"), rapid.Int64().Draw(t, "memory")}
		p := m.Predict(s, time.Duration(rapid.Int64().Draw(t, "age")))
		if !(p.Value >= 7.5 && p.Value <= 50) || !(p.Trust >= 0 && p.Trust <= 1) || (p.Trust < 1) && p.Doubts == 0 {
			t.Fatalf("%+v of %+v at %+v", p, m, s)
		}
	})
}

// TestWhateverIsLearnedIsSound checks that any samples give a valid model or an error.
func TestWhateverIsLearnedIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := make([]Sample, rapid.IntRange(0, 30).Draw(t, "n"))
		for i := range samples {
			samples[i] = Sample{
				Size:    Size{rapid.Int64Range(0, 64_000).Draw(t, "cpu"), rapid.Int64Range(0, 64*gib).Draw(t, "memory")},
				Runtime: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "runtime")),
				Energy:  energy.Joules(rapid.Float64Range(1e-3, 1e9).Draw(t, "energy")),
			}
		}
		p, unusable, err := Learn(samples)
		if err != nil {
			if len(samples) >= LeastSamples {
				t.Fatalf("%d samples: %v", len(samples), err)
			}
			return
		}
		err = errors.Join(p.Energy.Validate(), p.Runtime.Validate())
		if unusable != 0 || err != nil || p.Energy.Quality.RSquared > 1 || p.Energy.Quality.RSquared < 0 {
			t.Fatalf("%+v, %d unusable: %v", p, unusable, err)
		}
	})
}

func TestFingerprintsChangeWithTheHardware(t *testing.T) {
	h := Hardware{"amd64", "AMD EPYC 7302 16-Core Processor", 16, 32, 3000, 128*gib - 100<<20}
	same := h
	same.CPUModel, same.MemoryBytes = "amd epyc 7302  16-core processor ", 128*gib-120<<20
	if a, b := h.Fingerprint(), same.Fingerprint(); a != b || len(a) != 16 {
		t.Errorf("fingerprints %q and %q of the same hardware", a, b)
	}
	for name, change := range map[string]func(*Hardware){
		"CPU": func(h *Hardware) { h.CPUModel = "other" }, "architecture": func(h *Hardware) { h.Architecture = "arm64" }, "cores": func(h *Hardware) { h.Cores++ },
		"threads": func(h *Hardware) { h.Threads = 16 }, "clock": func(h *Hardware) { h.MaxMegahertz++ }, "memory": func(h *Hardware) { h.MemoryBytes *= 2 },
	} {
		other := h
		change(&other)
		if cmp.Compare(other.Fingerprint(), h.Fingerprint()) == 0 {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
}

func BenchmarkPredict(b *testing.B) {
	p, _, err := Learn(laws[3].probe(cpus, memories, 0.03))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Runtime.Predict(Size{700, gib}, time.Hour)
	}
}

func BenchmarkLearn(b *testing.B) {
	samples := laws[3].probe(cpus, memories, 0.03)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Learn(samples); err != nil {
			b.Fatal(err)
		}
	}
}
