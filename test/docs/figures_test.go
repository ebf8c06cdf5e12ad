package docs

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// named returns a page.
func named(t *testing.T, name string) page {
	t.Helper()
	for _, p := range pages(t) {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("there is no page %s", name)
	return page{}
}

var figure = regexp.MustCompile(`\d[\d,.]*\s(?:%|s|ms|minutes|MB)\b|\d[\d,.]*\s%`)

// comparison matches the sentence of the README about Karpenter, whose figures are computed from a table.
var comparison = regexp.MustCompile(`(?s)machines cost .* on a steady load`)

// TestFiguresOfTheREADMEAreThoseOfTheBenchmarks looks for each figure with a unit in the page with all measurements.
func TestFiguresOfTheREADMEAreThoseOfTheBenchmarks(t *testing.T) {
	measured := strings.Join(strings.Fields(named(t, "docs/benchmarks.md").text), " ")
	text := strings.Join(strings.Fields(comparison.ReplaceAllString(named(t, "README.md").text, "")), " ")
	figures := figure.FindAllString(text, -1)
	for _, f := range figures {
		if !strings.Contains(measured, f) {
			t.Errorf("the README has the figure %q, which docs/benchmarks.md has not", f)
		}
	}
	if len(figures) == 0 {
		t.Error("found no figure")
	}
}

// live is what a contestant of the live comparison had while pods arrived: dollars per hour, and the mean wait in seconds.
type live struct{ dollarsPerHour, wait float64 }

// liveFigures reads the runs at the pace at which Karpenter is unchanged, by load and flavors, and then by contestant.
func liveFigures(p page) map[string]map[string]live {
	runs := map[string]map[string]live{}
	for _, row := range rowsOf(p)["Figures"] {
		if len(row) < 7 || row[2] != "stretched" {
			continue
		}
		dollars, err := strconv.ParseFloat(row[5], 64)
		wait, err2 := strconv.ParseFloat(strings.TrimSuffix(row[6], " s"), 64)
		if err != nil || err2 != nil {
			continue
		}
		on := row[0] + " " + row[1]
		if runs[on] == nil {
			runs[on] = map[string]live{}
		}
		runs[on][row[3]] = live{dollars, wait}
	}
	return runs
}

// better returns the figures of the policy of Karpenter with which machines cost less.
func better(run map[string]live) live {
	least := live{dollarsPerHour: math.Inf(1)}
	for name, of := range run {
		if strings.HasPrefix(name, "karpenter") && of.dollarsPerHour < least.dollarsPerHour {
			least = of
		}
	}
	return least
}

// savings says between which bounds these costs are less than others, as shares of them.
func savings(shares []float64) string {
	least, most := 100*(1-slices.Max(shares)), 100*(1-slices.Min(shares))
	if least < 0 {
		return fmt.Sprintf("between %.0f %% less and %.0f %% more", most, -least)
	}
	return fmt.Sprintf("%.0f to %.0f %% less", least, most)
}

// TestTheREADMEComparesWithKarpenterAsTheFiguresDo computes the ranges of its sentence from the table of the live
// comparison: Supercargo's dollars per hour and mean waits over those of Karpenter's better policy.
func TestTheREADMEComparesWithKarpenterAsTheFiguresDo(t *testing.T) {
	runs := liveFigures(named(t, "docs/autoscalers.md"))
	var costs, waits []float64
	for _, run := range runs {
		ours, theirs := run["supercargo"], better(run)
		costs = append(costs, ours.dollarsPerHour/theirs.dollarsPerHour)
		waits = append(waits, ours.wait/theirs.wait)
	}
	if len(costs) < 5 {
		t.Fatalf("found only the runs %q", slices.Sorted(maps.Keys(runs)))
	}
	steady := runs["htas-stable 8"]
	ours, theirs := steady["supercargo"], better(steady)
	text := strings.Join(strings.Fields(named(t, "README.md").text), " ")
	for _, want := range []string{
		fmt.Sprintf("machines cost %s than with its better policy while pods arrived, and pods waited %.1f to %.1f times as long", savings(costs), slices.Min(waits), slices.Max(waits)),
		fmt.Sprintf("on a steady load, they cost %.0f %% less, and pods waited %.1f times as long", 100*(1-ours.dollarsPerHour/theirs.dollarsPerHour), ours.wait/theirs.wait),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the README does not say %q", want)
		}
	}
}
