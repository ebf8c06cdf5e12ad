package energy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"supercargo.dev/supercargo/internal/input/series"
	"supercargo.dev/supercargo/internal/input/table"
)

// byUtilization are the columns of most tests.
var byUtilization = Columns{Time: "time", Watts: "watts", Rates: []string{"utilization"}, MostRate: 1}

func TestASeriesIsReadByItsColumns(t *testing.T) {
	tests := []struct {
		name, text string
		columns    Columns
		want       []Activity
	}{
		{"as named", "time,watts,utilization\n0,100,0.5\n1,120.5,1\n", byUtilization, []Activity{{[]float64{0.5}, 100}, {[]float64{1}, 120.5}}},
		{"in any order, among others, without time", "host,utilization,watts\nn, 0.25 ,7e1\n", byUtilization, []Activity{{[]float64{0.25}, 70}}},
		{"moments", "time,watts,utilization\n2026-01-01T12:00:00Z,1,0\n2026-01-01T13:00:00.5+01:00,2,1\n", byUtilization, []Activity{{[]float64{0}, 1}, {[]float64{1}, 2}}},
		{"two at one moment", "time,watts,utilization\n5,1,0\n5,2,1\n", byUtilization, []Activity{{[]float64{0}, 1}, {[]float64{1}, 2}}},
		{"from a spreadsheet", "\ufeff\"watts\",\"utilization\"\r\n\"1\",\"0\"\r\n", byUtilization, []Activity{{[]float64{0}, 1}}},
		{"several rates", "w,b,a\n9,1e9,2\n", Columns{Watts: "w", Rates: []string{"a", "b"}, MostRate: 1e18}, []Activity{{[]float64{2, 1e9}, 9}}},
		{"no rows", "watts,utilization\n", byUtilization, nil},
	}
	for _, tc := range tests {
		got, err := ReadSeries(strings.NewReader(tc.text), tc.columns)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
}

func TestASeriesThatCannotBeIsRefusedByLineAndColumn(t *testing.T) {
	const header = "time,watts,utilization\n"
	timed := byUtilization
	timed.NeedsTime = true
	tests := []struct {
		name, text string
		columns    Columns
		says       []string
	}{
		{"nothing", "", byUtilization, []string{"header"}},
		{"no such columns", "t,w\n1,2\n", byUtilization, []string{"line 1", "column watts", "column utilization", "the header has t, w"}},
		{"a column twice", "watts,utilization,watts\n", byUtilization, []string{"line 1", "column watts", "twice"}},
		{"no time, which was asked for", "watts,utilization\n1,0\n", timed, []string{"line 1", "column time"}},
		{"watts that are no number", header + "0,1,0\n1,much,0\n", byUtilization, []string{"line 3", "column watts", `"much"`}},
		{"NaN", header + "0,NaN,0\n", byUtilization, []string{"line 2", "column watts"}},
		{"infinite", header + "0,+Inf,0\n", byUtilization, []string{"line 2", "column watts"}},
		{"no power", header + "0,0,0\n", byUtilization, []string{"line 2", "column watts", "above 0"}},
		{"a power station", header + "0,1e6,0\n", byUtilization, []string{"line 2", "column watts"}},
		{"percent", header + "0,1,55\n", byUtilization, []string{"line 2", "column utilization", `"55"`, "from 0 to 1"}},
		{"below 0", header + "0,1,-0.1\n", byUtilization, []string{"line 2", "column utilization"}},
		{"an empty cell", header + "0,1,\n", byUtilization, []string{"line 2", "column utilization", `""`}},
		{"back in time", header + "5,1,0\n4,1,0\n", byUtilization, []string{"line 3", "column time", "order"}},
		{"no time in its column", header + "noon,1,0\n", byUtilization, []string{"line 2", "column time", `"noon"`}},
		{"a cell too few", header + "0,1,0\n1,1\n", byUtilization, []string{"line 3"}},
		{"a quote without end", header + "0,1,\"0\n", byUtilization, []string{"line 2"}},
		{"lines after an empty one", header + "\n\n0,1,2\n", byUtilization, []string{"line 4"}},
	}
	for _, tc := range tests {
		got, err := ReadSeries(strings.NewReader(tc.text), tc.columns)
		for _, part := range tc.says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, error %v, want one that says %q", tc.name, got, err, part)
			}
		}
	}
	long := header + "0," + strings.Repeat("9", 1000) + "x,0\n"
	for _, text := range []string{long, strings.Repeat("x", 5000) + "\n"} {
		if _, err := ReadSeries(strings.NewReader(text), byUtilization); err == nil || len(err.Error()) > 300 {
			t.Errorf("error %v, want a short one", err)
		}
	}
}

// endless is a file that begins with text and repeats more forever.
type endless struct{ text, more string }

func (e *endless) Read(p []byte) (int, error) {
	if e.text == "" {
		e.text = strings.Repeat(e.more, 1+4096/len(e.more))
	}
	n := copy(p, e.text)
	e.text = e.text[n:]
	return n, nil
}

func TestASeriesWithoutEndIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		file io.Reader
		says string
	}{
		"rows":         {&endless{"watts,utilization\n", "1,0\n"}, fmt.Sprintf("exceeds %d rows", series.MaxRows)},
		"blank rows":   {&endless{"watts,utilization,note\n", "\n"}, fmt.Sprintf("input is larger than %d bytes", table.MaxInputBytes)},
		"one row":      {&endless{"watts,utilization\n", "9"}, fmt.Sprintf("input is larger than %d bytes", table.MaxInputBytes)},
		"the header":   {&endless{"watts", "x"}, fmt.Sprintf("input is larger than %d bytes", table.MaxInputBytes)},
		"a quoted row": {&endless{"watts,utilization\n\"", "\n"}, fmt.Sprintf("input is larger than %d bytes", table.MaxInputBytes)},
	} {
		if _, err := ReadSeries(tc.file, byUtilization); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tc.says)
		}
	}
}

// FuzzReadSeries checks that values are in range, and that they survive being written and read again.
func FuzzReadSeries(f *testing.F) {
	f.Add("time,watts,utilization\n2026-01-01T12:00:00Z,100,0.5\n2026-01-01T12:00:01Z,110,1\n")
	f.Add("\ufeffutilization,watts\n0.1,1e-3\n")
	f.Add("time,watts,utilization\n1,1,1\n0,1,1\n")
	f.Add("watts,utilization\n\"1\n\",0\n")
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := ReadSeries(strings.NewReader(text), byUtilization)
		if err != nil {
			if samples != nil {
				t.Error("a file that is refused is read in part")
			}
			return
		}
		var b strings.Builder
		b.WriteString("watts,utilization\n")
		for _, s := range samples {
			if !(s.Watts > 0 && s.Watts < 1e6) || len(s.Rates) != 1 || !(s.Rates[0] >= 0 && s.Rates[0] <= 1) {
				t.Fatalf("%+v", s)
			}
			fmt.Fprintf(&b, "%v,%v\n", float64(s.Watts), s.Rates[0])
		}
		again, err := ReadSeries(strings.NewReader(b.String()), byUtilization)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(samples) {
			t.Errorf("%v (%v) is read of what %v is written as", again, err, samples)
		}
	})
}

// TestWhatIsHeldOutIsNotFittedTo checks that both ways judge all samples that were not fitted to, and no others.
func TestWhatIsHeldOutIsNotFittedTo(t *testing.T) {
	samples := make([]Activity, 45)
	for i := range samples {
		samples[i] = Activity{Watts: Watts(i)}
	}
	var shown, judged [][]int
	numbers := func(of []Activity) (all []int) {
		for _, s := range of {
			all = append(all, int(s.Watts))
		}
		return all
	}
	held, err := HoldOut(samples, func(known []Activity) (func([]Activity) Quality, error) {
		shown = append(shown, numbers(known))
		return func(unseen []Activity) Quality {
			judged = append(judged, numbers(unseen))
			return Quality{Samples: len(unseen)}
		}, nil
	})
	if err != nil || len(shown) != 2 || held.LastHalf.Samples != 23 || held.LastHalf.Samples+len(shown[0]) != 45 {
		t.Fatalf("%+v, %v, shown %v", held, err, shown)
	}
	if slices.Max(shown[0]) >= slices.Min(judged[0]) {
		t.Errorf("the last half, %v, is predicted by %v", judged[0], shown[0])
	}
	if !slices.Equal(shown[1][:5], []int{0, 1, 2, 5, 6}) || !slices.Equal(judged[1][:5], []int{3, 4, 7, 8, 12}) {
		t.Errorf("twentieths %v are predicted by %v", judged[1], shown[1])
	}
	all := slices.Concat(shown[1], judged[1])
	slices.Sort(all)
	if !slices.Equal(all, numbers(samples)) {
		t.Errorf("%v is neither shown nor judged, or both", all)
	}

	few := errors.New("too few")
	_, err = HoldOut(samples, func(known []Activity) (func([]Activity) Quality, error) {
		if len(known) != 22 {
			return nil, few
		}
		return func([]Activity) Quality { return Quality{} }, nil
	})
	if !errors.Is(err, few) || !strings.Contains(err.Error(), "every other twentieth") {
		t.Errorf("error %v, want one that names the part", err)
	}
}

func TestLoadIsAShareOfFullLoad(t *testing.T) {
	got := ByUtilization([]Activity{{[]float64{2}, 10}, {[]float64{8}, 20}, {[]float64{9}, 30}}, 8)
	if want := []Sample{{0.25, 10}, {1, 20}, {1, 30}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestQualityByCountersIsThatOfTheSamePower(t *testing.T) {
	flat := CounterModel{Idle: 100, Full: []float64{10}, Rises: [][]Watts{make([]Watts, counterKnots)}}
	q := QualityOfCounters(flat, []Activity{{[]float64{1}, 80}, {[]float64{2}, 100}, {[]float64{3}, 125}})
	if want := (0.25 + 0 + 0.2) / 3; math.Abs(q.MeanError-want) > 1e-12 || q.Samples != 3 || q.Least != 0 || q.Most != 0 || !(q.RSquared < 0.01) {
		t.Errorf("%+v, want a mean error of %v", q, want)
	}
}
