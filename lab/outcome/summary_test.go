package outcome

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// threeSeeds returns runs of the same two policies. By seed, the first costs 100, 200 and 300
// dollars, and the second saves 20, 10 and 60 percent of that.
func threeSeeds() []Report {
	seed := func(seed uint64, first, second, bound, mean float64) Report {
		r := twoPolicies()
		r.Seed = seed
		for i, cost := range []float64{first, second} {
			p := &r.Policies[i]
			p.CostDollars, p.LowerBoundDollars, p.Scheduling.Mean = cost, bound, mean*float64(i+1)
			p.Moves.Evictions = i * int(seed)
		}
		return r
	}
	return []Report{seed(3, 300, 120, 100, 40), seed(1, 100, 80, 50, 10), seed(2, 200, 180, 150, 70)}
}

func summaryOf(t testing.TB, reports []Report) Summary {
	t.Helper()
	s, err := Summarize(reports)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASummaryWorkedOutByHand(t *testing.T) {
	s := summaryOf(t, threeSeeds())
	want := Summary{Scenario: "two days", Seeds: []uint64{1, 2, 3}, Policies: []PolicySummary{
		{
			Name: "default", CostDollars: Spread{200, 100, 300}, LowerBoundDollars: Spread{100, 50, 150},
			AboveLowerBoundPercent: &Spread{(100 + 100.0/3 + 200) / 3, 100.0 / 3, 200}, SavedPercent: &Spread{},
			EnergyJoules: Spread{36e6, 36e6, 36e6}, SchedulingSecondsMean: Spread{40, 10, 70}, SchedulingSecondsP95: Spread{40, 40, 40},
			CPUUtilizationPercent: Spread{50, 50, 50}, MemoryUtilizationPercent: Spread{25, 25, 25}, NodeHours: Spread{16, 16, 16},
		},
		{
			Name: "packing", CostDollars: Spread{380.0 / 3, 80, 180}, LowerBoundDollars: Spread{100, 50, 150},
			AboveLowerBoundPercent: &Spread{(60 + 20 + 20.0) / 3, 20, 60}, SavedPercent: &Spread{30, 10, 60},
			EnergyJoules: Spread{18e6, 18e6, 18e6}, SchedulingSecondsMean: Spread{80, 20, 140}, SchedulingSecondsP95: Spread{90, 90, 90},
			CPUUtilizationPercent: Spread{62.5, 62.5, 62.5}, MemoryUtilizationPercent: Spread{37.5, 37.5, 37.5}, NodeHours: Spread{12.5, 12.5, 12.5},
			Migrations: Spread{4, 4, 4}, Evictions: Spread{2, 1, 3}, LostWorkSeconds: Spread{90, 90, 90}, PodsUndone: Spread{2, 2, 2},
		},
	}}
	if diff := cmp.Diff(want, s, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestASavingMayBeNegative(t *testing.T) {
	reports := threeSeeds()
	for i := range reports {
		slices.Reverse(reports[i].Policies)
	}
	s := summaryOf(t, reports) // 100 dollars instead of 80, 200 instead of 180, 300 instead of 120
	if got, want := *s.Policies[1].SavedPercent, (Spread{(-25 - 100.0/9 - 150) / 3, -150, -100.0 / 9}); !cmp.Equal(got, want, cmpopts.EquateApprox(1e-12, 0)) {
		t.Errorf("saving is %v, want %v", got, want)
	}
	if text := written(t, s.WriteTable); !strings.Contains(text, "-62.0 [-150.0, -11.1]") {
		t.Errorf("saving is missing in:\n%s", text)
	}
}

func TestTheOrderOfTheReportsDoesNotMatter(t *testing.T) {
	reports := threeSeeds()
	want := written(t, summaryOf(t, reports).WriteJSON)
	before := reports[0].Seed
	slices.Reverse(reports)
	if got := written(t, summaryOf(t, reports).WriteJSON); got != want {
		t.Errorf("summaries differ:\n%s\n%s", want, got)
	}
	if reports[2].Seed != before {
		t.Error("the caller's list was sorted")
	}
}

func TestAMeanNeverLeavesItsRange(t *testing.T) {
	for n := range 50 {
		values := slices.Repeat([]float64{0.1}, n+1)
		if s := spreadOf(values); s != (Spread{0.1, 0.1, 0.1}) {
			t.Errorf("spread of %d times 0.1 is %v", n+1, s)
		}
	}
	largest := Spread{limit, limit, limit}
	if s := spreadOf(slices.Repeat([]float64{limit}, 7)); s != largest {
		t.Errorf("spread of the largest numbers is %v", s)
	}
}

func TestReportsThatDoNotBelongTogetherAreRefused(t *testing.T) {
	tests := []struct {
		name string
		edit func(r []Report) []Report
		want string
	}{
		{"none", func([]Report) []Report { return nil }, "at least one report is required"},
		{"another scenario", func(r []Report) []Report { r[0].Scenario = "other"; return r },
			`scenario is "two days" with seed 1 and "other" with seed 3`},
		{"another policy", func(r []Report) []Report { r[2].Policies[1].Name = "other"; return r },
			`policies are ["default" "packing"] with seed 1 and ["default" "other"] with seed 2`},
		{"another order", func(r []Report) []Report { slices.Reverse(r[2].Policies); return r },
			`policies are ["default" "packing"] with seed 1 and ["packing" "default"] with seed 2`},
		{"one policy less", func(r []Report) []Report { r[0].Policies = r[0].Policies[:1]; return r },
			`and ["default"] with seed 3`},
		{"a seed twice", func(r []Report) []Report { return append(r, r[1]) }, "seed 1 occurs twice"},
		{"a report that cannot be", func(r []Report) []Report { r[2].Policies[0].CostDollars = math.NaN(); return r },
			"report of seed 2: policies[0].costDollars is NaN"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Summarize(tc.edit(threeSeeds()))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want it to contain %q", err, tc.want)
			}
		})
	}
}

func TestPercentagesThatDoNotExistWithEachSeedAreLeftOut(t *testing.T) {
	reports := threeSeeds()
	reports[1].Policies[0].CostDollars = 0
	for i := range reports[2].Policies {
		reports[2].Policies[i].LowerBoundDollars = 0
	}
	s := summaryOf(t, reports)
	if p := s.Policies[1]; p.SavedPercent != nil || p.AboveLowerBoundPercent != nil {
		t.Errorf("percentages are %v and %v, want none", p.SavedPercent, p.AboveLowerBoundPercent)
	}
	if text := written(t, s.WriteJSON); strings.Contains(text, "savedPercent") || strings.Contains(text, "aboveLowerBoundPercent") {
		t.Errorf("document has them:\n%s", text)
	}
	if got := rowOf(t, written(t, s.WriteTable), "packing"); got[4] != "-" || got[5] != "-" {
		t.Errorf("row is %q, want no percentages", got)
	}
}

func TestTheFieldsOfTheSummarysJSONAreAContract(t *testing.T) {
	one, two := Spread{2, 1, 3}, &Spread{5, 4, 6}
	s := Summary{Scenario: "s", Seeds: []uint64{1, 2}, Policies: []PolicySummary{{
		Name: "p", CostDollars: one, LowerBoundDollars: one, AboveLowerBoundPercent: two, SavedPercent: two, EnergyJoules: one,
		ServedBoundDollars: one, ServedBoundWaitSeconds: one, AboveServedBoundPercent: two, ServiceWaitSeconds: one,
		SchedulingSecondsMean: one, SchedulingSecondsP95: one, CPUUtilizationPercent: one, MemoryUtilizationPercent: one, NodeHours: one,
		Migrations: one, Evictions: one, LostWorkSeconds: one, PodsUndone: one,
	}}}
	const a, b = `{"mean":2,"min":1,"max":3}`, `{"mean":5,"min":4,"max":6}`
	const want = `{"scenario":"s","seeds":[1,2],"policies":[{"name":"p","costDollars":` + a + `,"lowerBoundDollars":` + a +
		`,"aboveLowerBoundPercent":` + b + `,"servedBoundDollars":` + a + `,"servedBoundWaitSeconds":` + a +
		`,"aboveServedBoundPercent":` + b + `,"serviceWaitSeconds":` + a + `,"savedPercent":` + b + `,"energyJoules":` + a + `,"schedulingSecondsMean":` + a +
		`,"schedulingSecondsP95":` + a + `,"cpuUtilizationPercent":` + a + `,"memoryUtilizationPercent":` + a + `,"nodeHours":` + a +
		`,"migrations":` + a + `,"evictions":` + a + `,"lostWorkSeconds":` + a + `,"podsUndone":` + a + `}]}`
	text := written(t, s.WriteJSON)
	if diff := cmp.Diff(want, squeezed(text)); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	var back Summary
	testfile.JSON(t, text, &back)
	if diff := cmp.Diff(s, back); diff != "" {
		t.Errorf("summary (-written +read):\n%s", diff)
	}
	if text := written(t, Summary{}.WriteJSON); strings.Contains(text, "null") {
		t.Errorf("document contains null:\n%s", text)
	}
}

func TestSummariesWithoutNumbersAreRefused(t *testing.T) {
	s := summaryOf(t, threeSeeds())
	s.Policies[1].SavedPercent.Min = math.Inf(-1)
	s.Policies[0].NodeHours.Mean = math.NaN()
	for _, w := range []writer{{"JSON", s.WriteJSON}, {"table", s.WriteTable}, {"HTML", s.WriteHTML}} {
		var out bytes.Buffer
		err := w.write(&out)
		for _, want := range []string{"policies[1].savedPercent.min is -Inf", "policies[0].nodeHours.mean is NaN"} {
			if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
				t.Errorf("%s: wrote %d bytes, error is %v, want it to contain %q", w.name, out.Len(), err, want)
			}
		}
	}
}

func TestTheSummarysTableHasMeansAndRanges(t *testing.T) {
	text := written(t, summaryOf(t, threeSeeds()).WriteTable)
	cost, pods, _ := strings.Cut(text, "wait")
	for _, want := range []string{
		"Scenario two days, 3 seeds, 2 policies. Mean over the seeds [least, most].\n",
		"200.00 [100.00, 300.00]", "111.1 [33.3, 200.0]", "126.67 [80.00, 180.00]", "33.3 [20.0, 60.0]", "30.0 [10.0, 60.0]", "12.5 [12.5, 12.5]", "5.0 [5.0, 5.0]",
	} {
		if !strings.Contains(cost, want) {
			t.Errorf("%q is missing in:\n%s", want, cost)
		}
	}
	for _, want := range []string{
		"80 [20, 140]", "62.5 [62.5, 62.5]", "2.00 [1.00, 3.00]", "90.0 [90.0, 90.0]",
		"\nLower bound: $100.00 [$50.00, $150.00].", "\nSaved: against default", "\nPods stayed pending or failed",
	} {
		if !strings.Contains(pods, want) {
			t.Errorf("%q is missing in:\n%s", want, pods)
		}
	}
	if got := rowOf(t, text, "default"); got[7] != "-" {
		t.Errorf("row is %q, want nothing saved by the first policy", got)
	}
}

func TestTheSummarysTableStaysBelow150Columns(t *testing.T) {
	reports := threeSeeds()
	for i := range reports {
		for j := range reports[i].Policies {
			p := &reports[i].Policies[j]
			p.Name = strings.Repeat("name ", 10) + p.Name
			p.CostDollars, p.LowerBoundDollars, p.EnergyJoules, p.Nodes.Hours = p.CostDollars*100, p.LowerBoundDollars*100, 1e11, 99_999
			p.ServedBoundDollars, p.ServedBoundWaitSeconds, p.ServiceWaitSeconds = p.LowerBoundDollars*1.5, 1000, 86_400
			p.Scheduling.Mean, p.Moves = 5000, Moves{Migrations: 9000, Evictions: 9000, LostWorkSeconds: 1e6}
		}
	}
	for line := range strings.Lines(written(t, summaryOf(t, reports).WriteTable)) {
		if runes := utf8.RuneCountInString(line) - 1; runes > 150 {
			t.Errorf("line has %d columns: %s", runes, line)
		}
	}
}

func TestTheSummarysPageHasBarsWithTheirRange(t *testing.T) {
	doc := parsed(t, written(t, summaryOf(t, threeSeeds()).WriteHTML)) // the axis ends at 300 dollars
	bars := all(doc, "svg", "bars")
	if len(bars) != 2 {
		t.Fatalf("%d bar charts, want those of cost and time", len(bars))
	}
	var ranges []string
	for _, group := range all(bars[0], "g", "range") {
		line := all(group, "line", "")[0]
		ranges = append(ranges, attribute(line, "x1")+" "+attribute(line, "x2"))
	}
	if diff := cmp.Diff([]string{"33.33% 100%", "26.67% 60%"}, ranges); diff != "" {
		t.Errorf("ranges of the cost (-want +got):\n%s", diff)
	}
	if got := attribute(all(bars[0], "line", "bound")[0], "x1"); got != "33.33%" {
		t.Errorf("bound is at %s, want a third of 300 dollars", got)
	}
	want := "Cost of each policy. Lower bound, mean $100.00. default: mean $200.00, from $100.00 to $300.00. packing: mean $126.67, from $80.00 to $180.00."
	if got := attribute(bars[0], "aria-label"); got != want {
		t.Errorf("bars are called %q, want %q", got, want)
	}
	text := textOf(one(t, doc, "header", "")) + " " + textOf(one(t, doc, "main", ""))
	for _, part := range []string{
		"3 seeds (1, 2, 3)", "default 200.00 [100.00, 300.00]", "Lowest mean cost among those that left the fewest pods undone: default costs $200.00.",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in: %s", part, text)
		}
	}
	checkNumbers(t, doc)
}

func TestTheSummarysLeadSaysWhatIsSavedSeedBySeed(t *testing.T) {
	s := summaryOf(t, threeSeeds())
	s.Policies[0].PodsUndone = s.Policies[1].PodsUndone
	want := "Lowest mean cost: packing costs $126.67; seed by seed it saves 30.0 % [10.0, 60.0] against default."
	if got := s.lead(); got != want {
		t.Errorf("lead is %q, want %q", got, want)
	}
	if got := (Summary{}).lead(); got != "No policy was run." {
		t.Errorf("lead of nothing is %q", got)
	}
}

func TestSummariesWithLittleInThemAreShown(t *testing.T) {
	for _, s := range []Summary{{}, summaryOf(t, []Report{{}}), summaryOf(t, []Report{named("a")}), summaryOf(t, []Report{named(tenNames()...)})} {
		checkNumbers(t, parsed(t, written(t, s.WriteHTML)))
		if text := written(t, s.WriteTable); !strings.HasPrefix(text, "Scenario ") {
			t.Errorf("table is:\n%s", text)
		}
	}
}

func tenNames() []string {
	return []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
}

func FuzzNamesCannotLeaveTheSummary(f *testing.F) {
	for _, name := range hostileNames {
		f.Add(name)
	}
	page := func(t testing.TB, name string) string {
		return written(t, summaryOf(t, []Report{withNames(name)}).WriteHTML)
	}
	want := shape(f, page(f, "tame"))
	f.Fuzz(func(t *testing.T, name string) {
		if diff := cmp.Diff(want, shape(t, page(t, name))); diff != "" {
			t.Errorf("%q changes the page (-tame +hostile):\n%s", name, diff)
		}
	})
}

// TestAPolicyThatFailsWithOneSeedHasNoMeans also checks that what does not depend on the policy
// that failed stays.
func TestAPolicyThatFailsWithOneSeedHasNoMeans(t *testing.T) {
	first, second := twoPolicies(), twoPolicies()
	second.Seed = 8
	for _, r := range []Report{first, second} {
		for i := range r.Policies {
			r.Policies[i].ServedBoundDollars = 70
			r.Policies[i].Energy = &Energy{TaskJoules: 1, SameEndJoules: 5}
		}
	}
	whole := summaryOf(t, []Report{first, second})
	second.Policies[0] = Policy{Name: "default", Error: "no room"}
	second.Policies[1].ServedBoundDollars = 0
	second.BoundsError = "the served bound is unknown with seed 8"
	s := summaryOf(t, []Report{first, second})
	if diff := cmp.Diff(PolicySummary{Name: "default", Error: "with seed 8: no room"}, s.Policies[0]); diff != "" {
		t.Errorf("the policy that failed (-want +got):\n%s", diff)
	}
	want := whole.Policies[1]
	want.SavedPercent, want.ServedBoundDollars, want.AboveServedBoundPercent = nil, Spread{}, nil
	want.Energy.SavedPercent, want.Energy.SameEndSavedPercent, want.Energy.LongerPercent, want.Energy.LaterPercent = nil, nil, nil, nil
	if diff := cmp.Diff(want, s.Policies[1]); diff != "" {
		t.Errorf("the other policy (-want +got):\n%s", diff)
	}
	text := written(t, s.WriteTable)
	for _, line := range []string{
		"Policy default failed: with seed 8: no room.\n", "The served bound is unknown with seed 8.\n", "Saved: unknown, because default, the first policy, failed.\n",
		"Lower bound: $60.00 [$60.00, $60.00]. ",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in:\n%s", line, text)
		}
	}
	if row := rowOf(t, text, "default"); row[1] != "failed" {
		t.Errorf("the row is %q, want that it failed", row)
	}
	for _, figure := range []string{`"costDollars"`, `"savedPercent"`} {
		if n := strings.Count(written(t, s.WriteJSON), figure); n > 1 {
			t.Errorf("%s is %d times in the document, want not for the policy that failed", figure, n)
		}
	}
}
