package score

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/test/fixtures"
)

// takes returns a fully trusted option.
func takes(joules, seconds float64) Option { return trusted(joules, seconds, 1) }

func trusted(joules, seconds, trust float64) Option {
	return Option{Known: true, Energy: profile.Prediction{Value: joules, Trust: trust}, Runtime: profile.Prediction{Value: seconds, Trust: trust}}
}

func waking(o Option, watts energy.Watts) Option {
	o.Waking = watts
	return o
}

// TestScores compares with HEATS's formula calculated by hand, as 1 + 99·score.
func TestScores(t *testing.T) {
	fast, frugal, unknown := takes(1000, 50), takes(400, 200), Option{}
	tests := []struct {
		name    string
		h       float64
		options []Option
		want    []int64
	}{
		{"energy alone: 1-400/1000", 1, []Option{fast, frugal}, []int64{1, 60}},
		{"runtime alone: 50/200", 0, []Option{fast, frugal}, []int64{100, 26}},
		{"both alike", 0.5, []Option{fast, frugal}, []int64{51, 43}},
		{"mostly energy", 0.8, []Option{fast, frugal}, []int64{21, 53}},
		{"one option has nothing to be compared with", 0.5, []Option{fast}, []int64{51}},
		{"alike options score alike", 0.5, []Option{fast, fast, fast}, []int64{51, 51, 51}},
		{"nothing known", 0.3, []Option{unknown, unknown}, []int64{50, 50}},
		{"no options", 0.3, nil, nil},
		{"the unknown is the mean: 0.3", 1, []Option{fast, frugal, unknown}, []int64{1, 60, 31}},
		{"and below the best even if there is one only", 1, []Option{fast, unknown}, []int64{1, 0}},
		{"or all are alike", 0, []Option{unknown, fast, fast}, []int64{99, 100, 100}},
		{"waking costs idle power: 400+5·200 J", 1, []Option{fast, waking(frugal, 5)}, []int64{29, 1}},
		{"and no time", 0, []Option{fast, waking(frugal, 4)}, []int64{100, 26}},
		{"half trusted is half way to the mean: (0+0.5·0.6)/1.5 = 0.2", 1, []Option{fast, trusted(400, 200, 0.5)}, []int64{1, 41}},
		{"not trusted is not known", 1, []Option{fast, frugal, trusted(1, 1, 0)}, []int64{1, 60, 31}},
		{"nor does it change the others", 0, []Option{fast, frugal, trusted(1, 1, 0)}, []int64{100, 26, 63}},
		{"none is trusted", 0.5, []Option{trusted(1, 1, 0), trusted(2, 2, 0)}, []int64{50, 50}},
	}
	for _, tc := range tests {
		results := make([]Result, len(tc.options))
		Rank(tc.h, tc.options, results)
		for i, r := range results {
			if r.Score != tc.want[i] {
				t.Errorf("%s: option %d scores %d (%+v), want %d", tc.name, i, r.Score, r, tc.want[i])
			}
		}
	}
}

func TestTrustInWhatDoesNotCountChangesNothing(t *testing.T) {
	o := takes(400, 200)
	o.Runtime.Trust = 0
	results := make([]Result, 2)
	Rank(1, []Option{takes(1000, 50), o}, results)
	if results[1].Neutral || results[1].Score != 60 {
		t.Errorf("energy alone counts, and its runtime is not known: %+v, want 60", results[1])
	}
	o.Waking = 1 // for an unknown time
	Rank(1, []Option{takes(1000, 50), o}, results)
	if !results[1].Neutral {
		t.Errorf("a machine that wakes for nobody knows how long: %+v, want neutral", results[1])
	}
}

// naive is a second implementation of HEATS's formula for fully trusted options.
func naive(h float64, options []Option) []float64 {
	mostEnergy, mostRate := 0.0, 0.0
	for _, o := range options {
		mostEnergy = math.Max(mostEnergy, o.Energy.Value)
		mostRate = math.Max(mostRate, 1/o.Runtime.Value)
	}
	var scores []float64
	for _, o := range options {
		scores = append(scores, h*(1-o.Energy.Value/mostEnergy)+(1-h)*(1/o.Runtime.Value)/mostRate)
	}
	return scores
}

func TestTrustedOptionsScoreAsInThePaper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.Float64Range(0, 1).Draw(t, "h")
		options := make([]Option, rapid.IntRange(1, 8).Draw(t, "n"))
		for i := range options {
			options[i] = takes(rapid.Float64Range(1e-3, 1e9).Draw(t, "J"), rapid.Float64Range(1e-3, 1e9).Draw(t, "s"))
		}
		results := make([]Result, len(options))
		Rank(h, options, results)
		for i, want := range naive(h, options) {
			if got := float64(results[i].Score); math.Abs(got-(1+99*want)) > 0.5000001 {
				t.Fatalf("option %d scores %v, want %v", i, got, 1+99*want)
			}
		}
	})
}

// TestTheUnknownIsNeverBest also checks that all scores are in range, whatever is known.
func TestTheUnknownIsNeverBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.Float64Range(0, 1).Draw(t, "h")
		options := make([]Option, rapid.IntRange(1, 8).Draw(t, "n"))
		for i := range options {
			if rapid.Bool().Draw(t, "known") {
				trust := rapid.SampledFrom([]float64{0, 1e-9, 0.3, 1})
				options[i] = Option{
					Known:   true,
					Energy:  profile.Prediction{Value: rapid.Float64Range(1e-9, 1e12).Draw(t, "J"), Trust: trust.Draw(t, "trust")},
					Runtime: profile.Prediction{Value: rapid.Float64Range(1e-9, 1e12).Draw(t, "s"), Trust: trust.Draw(t, "trust")},
					Waking:  energy.Watts(rapid.Float64Range(0, 1e6).Draw(t, "W")),
				}
			}
		}
		results := make([]Result, len(options))
		Rank(h, options, results)
		best, unknown, known := int64(-1), int64(-1), false
		for _, r := range results {
			if r.Score < 0 || r.Score > 100 || !(r.Energy >= 0 && r.Energy <= 1) || !(r.Rate >= 0 && r.Rate <= 1+1e-9) {
				t.Fatalf("%+v is out of range", r)
			}
			if r.Neutral {
				unknown = max(unknown, r.Score)
			} else {
				best, known = max(best, r.Score), true
			}
		}
		if known && unknown >= best {
			t.Fatalf("the unknown scores %d, the best %d: %+v of %+v", unknown, best, results, options)
		}
		for i, o := range options {
			if !o.Known && !results[i].Neutral {
				t.Fatalf("%+v is unknown and scores %+v", o, results[i])
			}
		}
	})
}

func TestWeights(t *testing.T) {
	annotated := func(text string) map[string]string {
		return map[string]string{v1alpha1.AnnotationEnergyWeight: text}
	}
	tests := []struct {
		name           string
		pod, namespace map[string]string
		want           Weight
		says           string
	}{
		{"nobody says", nil, nil, Weight{0.4, FromProfile}, ""},
		{"the pod", annotated("0.618"), annotated("1"), Weight{0.618, FromPod}, ""},
		{"the namespace", nil, annotated("1"), Weight{1, FromNamespace}, ""},
		{"none is a weight too", annotated("0"), annotated("1"), Weight{0, FromPod}, ""},
		{"above 1", annotated("1.01"), annotated("0.5"), Weight{0.5, FromNamespace}, "of the pod"},
		{"below 0", annotated("-0.1"), nil, Weight{0.4, FromProfile}, `"-0.1"`},
		{"NaN", annotated("NaN"), nil, Weight{0.4, FromProfile}, "from 0"},
		{"infinite", annotated("Inf"), nil, Weight{0.4, FromProfile}, "from 0"},
		{"text", annotated("green"), annotated("fast"), Weight{0.4, FromProfile}, "of the namespace"},
		{"nothing", annotated(""), nil, Weight{0.4, FromProfile}, `""`},
		{"a bad one of the namespace does not matter to a pod that says", annotated("1"), annotated("x"), Weight{1, FromPod}, ""},
	}
	for _, tc := range tests {
		got, err := WeightOf(tc.pod, tc.namespace, 0.4)
		if got != tc.want || (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %+v, %v; want %+v and %q", tc.name, got, err, tc.want, tc.says)
		}
	}
}

func FuzzWeight(f *testing.F) {
	for _, text := range []string{"0", "1", "0.5", "1e-3", "NaN", "-0", "0x1p-1", " 1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := WeightOf(map[string]string{v1alpha1.AnnotationEnergyWeight: text}, nil, 0.25)
		if !(w.H >= 0 && w.H <= 1) || (err != nil) != (w.Origin == FromProfile) {
			t.Errorf("%q: %+v, %v", text, w, err)
		}
	})
}

func TestMachineTypeOfANode(t *testing.T) {
	const ours, clouds = v1alpha1.LabelMachineType, "node.kubernetes.io/instance-type"
	for name, tc := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"no label": {nil, ""}, "ours": {map[string]string{ours: "xeon", clouds: "m5.large"}, "xeon"}, "the cloud's": {map[string]string{clouds: "m5.large"}, "m5.large"},
	} {
		if got := MachineType(tc.labels); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestPredictCountsIdlePowerOfAnIdleMachine(t *testing.T) {
	model := func(c float64) profile.Model {
		return profile.Model{Terms: []profile.Term{profile.One}, Coefficients: []float64{c},
			Range: profile.Range{Most: profile.Size{MilliCPU: 4000, MemoryBytes: 4 << 30}, LeastValue: c, MostValue: c}}
	}
	now := time.Date(2026, 1, 20, 12, 0, 0, 0, time.UTC)
	m := &profile.Machine{Profile: profile.Profile{Energy: model(500), Runtime: model(20)}, Power: energy.Model{Idle: 30, Full: 90}, Learned: now.Add(-252 * time.Hour)}
	size := profile.Size{MilliCPU: 1000, MemoryBytes: 1 << 30}
	if o := Predict(m, "", size, false, now); !o.Known || o.Joules() != 500 || o.Runtime.Value != 20 || o.Energy.Trust != 0.5 {
		t.Errorf("a busy machine: %+v, want 500 J, 20 s, and half the trust after ten days and a half", o)
	}
	if o := Predict(m, "", size, true, now); o.Joules() != 1100 {
		t.Errorf("an idle machine: %v J, want 500 + 30·20", o.Joules())
	}
	if o := Predict(nil, "", size, true, now); o != (Option{}) {
		t.Errorf("an unknown machine: %+v", o)
	}
}

func TestNodesAreComparedByKind(t *testing.T) {
	model := func(v float64) profile.Model {
		return profile.Model{Terms: []profile.Term{profile.One}, Coefficients: []float64{v},
			Range: profile.Range{Most: profile.Size{MilliCPU: 4000, MemoryBytes: 4 << 30}, LeastValue: v, MostValue: v}}
	}
	machines := profile.Set{
		"xeon": {Profile: profile.Profile{Energy: model(1000), Runtime: model(50)}},
		"arm":  {Profile: profile.Profile{Energy: model(400), Runtime: model(200)}, Power: energy.Model{Idle: 5, Full: 9}},
	}
	of := func(name, machineType string, idle bool) Node {
		return Node{Name: name, MachineType: machineType, Idle: idle}
	}
	nodes := []Node{of("b", "xeon", false), of("a", "xeon", false), of("c", "arm", true), of("d", "", false), of("e", "arm", false), of("f", "sparc", false)}
	var got []string
	for _, l := range Compare(1, profile.Size{MilliCPU: 1000, MemoryBytes: 1 << 30}, nodes, machines, time.Time{}) {
		got = append(got, fmt.Sprintf("%s %d %v", l.Node.Name, l.Result.Score, l.Result.Neutral))
		if (l.Doubts() != 0) || l.Option.Known != (l.Node.Name < "d" || l.Node.Name == "e") {
			t.Errorf("%+v", l)
		}
	}
	// Energy terms, at most 1400 J: xeon 400/1400, idle arm 0, busy arm 1000/1400; the mean
	// of the three is 1/3.
	want := []string{"e 72 false", "d 34 true", "f 34 true", "a 29 false", "b 29 false", "c 1 false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSizeIsWhatAPodRequests(t *testing.T) {
	if got := SizeOf(fixtures.Pod("p", 250, 1<<29)); got != (profile.Size{MilliCPU: 250, MemoryBytes: 1 << 29}) {
		t.Errorf("%+v", got)
	}
}

func BenchmarkRank(b *testing.B) {
	options := []Option{takes(1000, 50), takes(400, 200), {}, waking(takes(500, 100), 40), waking(takes(700, 70), 60), trusted(300, 300, 0.5)}
	results := make([]Result, len(options))
	b.ReportAllocs()
	for b.Loop() {
		Rank(0.5, options, results)
	}
}
