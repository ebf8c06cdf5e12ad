package outcome

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// rowOf returns the words of the line that begins with the name.
func rowOf(t *testing.T, text, name string) []string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+" ") {
			return strings.Fields(line)
		}
	}
	t.Fatalf("no line begins with %q:\n%s", name, text)
	return nil
}

func TestTheTableHasTheFiguresOfEachPolicy(t *testing.T) {
	text := written(t, twoPolicies().WriteTable)
	want := map[string][]string{
		//         cost     above   saved   kWh    mean    p95   cpu     mem     peak hours   moves  lost   completed undone
		"default": {"default", "100.00", "66.7", "-", "10.0", "12.0", "40.0", "50.0", "25.0", "9", "16.0", "0/0", "0.0", "48/50", "0/0"},
		"packing": {"packing", "80.00", "33.3", "20.0", "5.0", "24.0", "90.0", "62.5", "37.5", "7", "12.5", "4/2", "90.0", "46/50", "1/1"},
	}
	for name, figures := range want {
		if diff := cmp.Diff(figures, rowOf(t, text, name)); diff != "" {
			t.Errorf("row of %s (-want +got):\n%s\n%s", name, diff, text)
		}
	}
	for _, line := range []string{
		"Scenario two days, seed 7, 2 policies.\n",
		"Lower bound: $60.00. No policy that does all the work can cost less.\n",
		"Saved: against default, the first policy.\n",
		"Pods stayed pending or failed: ",
		"Pending with packing: 1 × too large\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in:\n%s", line, text)
		}
	}
}

func TestThePartsOfALineStandBelowTheirHeads(t *testing.T) {
	lines := strings.Split(written(t, twoPolicies().WriteTable), "\n")
	first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "policy") })
	for _, line := range lines[first+1 : first+4] {
		if utf8.RuneCountInString(line) != utf8.RuneCountInString(lines[first]) {
			t.Errorf("lines are not aligned:\n%s", strings.Join(lines[first:first+4], "\n"))
		}
	}
	if end := strings.Index(lines[first], "cost") + len("cost"); lines[first+2][end-6:end] != "100.00" || lines[first+3][end-5:end] != "80.00" {
		t.Errorf("costs do not end where their head does:\n%s", strings.Join(lines[first:first+4], "\n"))
	}
}

func TestWhereTheEnergyWentIsShownIfItIsKnown(t *testing.T) {
	r := named("first", "second")
	r.Policies[0].EnergyJoules, r.Policies[1].EnergyJoules = 200_000, 150_000
	r.Policies[0].Energy = &Energy{TaskJoules: 90_000, IdleJoules: 110_000, EndWatts: 100}
	r.Policies[1].Energy = &Energy{TaskJoules: 80_000, IdleJoules: 60_000, EndWatts: 100}
	r.Policies[0].EndSeconds, r.Policies[1].EndSeconds = 200, 100
	r.SameEnd()
	r.Policies[1].Runtime, r.Policies[1].Response = &Waits{Mean: 40}, &Waits{Mean: 55}
	r.Policies[1].MakespanSeconds = 100
	r.Policies[1].Energy.Dollars, r.Policies[1].Energy.CarbonGrams = 0.25, 412
	for name, text := range map[string]string{"terminal": strings.Join(strings.Fields(written(t, r.WriteTable)), " "), "page": written(t, r.WriteHTML)} {
		for _, want := range []string{"tasks", "idle", "response", "makespan"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing:\n%s", name, want, text)
			}
		}
	}
	if text := strings.Join(strings.Fields(written(t, r.WriteTable)), " "); !strings.Contains(text, "second 150 25.0 160 20.0 80.0 60 40.0 55.0 100 0.250 412") {
		t.Errorf("figures are missing:\n%s", text)
	}
}

func TestEnergyIsLeftOutIfNoMachineStatesItsPower(t *testing.T) {
	r := twoPolicies()
	if text := written(t, r.WriteTable); !strings.Contains(text, "energy") {
		t.Errorf("energy is missing:\n%s", text)
	}
	r.Policies[0].EnergyJoules, r.Policies[1].EnergyJoules = 0, 0
	if text := written(t, r.WriteTable); strings.Contains(text, "energy") || strings.Contains(text, "kWh") {
		t.Errorf("energy of nothing is shown:\n%s", text)
	}
}

func TestTimesAreShownInTheUnitThatSuitsTheLongest(t *testing.T) {
	r := twoPolicies()
	r.Policies[1].Scheduling.P95, r.Policies[1].Moves.LostWorkSeconds = 2*3600, 36*3600
	text := written(t, r.WriteTable)
	if got := rowOf(t, text, "packing"); got[5] != "0.400" || got[6] != "120" || got[12] != "36.0" {
		t.Errorf("waits are %s and %s, lost work is %s, want 0.400 and 120 min, and 36 h:\n%s", got[5], got[6], got[12], text)
	}
	for _, unit := range []string{"mean min", "p95 min", "work h"} {
		if !strings.Contains(text, unit) {
			t.Errorf("%q is missing:\n%s", unit, text)
		}
	}
}

func TestPercentagesOfNothingAreLeftOpen(t *testing.T) {
	r := twoPolicies()
	r.Policies[0].CostDollars = 0
	r.Policies[0].LowerBoundDollars, r.Policies[1].LowerBoundDollars = 0, 0
	text := written(t, r.WriteTable)
	if got := rowOf(t, text, "packing"); got[2] != "-" || got[3] != "-" {
		t.Errorf("above bound is %s, saved is %s, want neither:\n%s", got[2], got[3], text)
	}
	if !strings.Contains(text, "No lower bound of the cost is known.") {
		t.Errorf("lower bound is claimed:\n%s", text)
	}
}

func TestAPolicyThatCostsMoreSavesLessThanNothing(t *testing.T) {
	r := twoPolicies()
	r.Policies[1].CostDollars = 150
	if got := rowOf(t, written(t, r.WriteTable), "packing"); got[2] != "150.0" || got[3] != "-50.0" {
		t.Errorf("above bound is %s, saved is %s, want 150.0 and -50.0", got[2], got[3])
	}
}

func TestReasonsForPendingComeByHowOftenThenByText(t *testing.T) {
	r := named("p")
	r.Policies[0].PendingReasons = map[string]int64{"b": 2, "a": 2, "rare": 1, "often": 12345}
	text := written(t, r.WriteTable)
	want := "Pending with p: 12,345 × often\nPending with p: 2 × a\nPending with p: 2 × b\nPending with p: 1 × rare\n"
	if !strings.HasSuffix(text, want) {
		t.Errorf("table does not end in\n%s:\n%s", want, text)
	}
}

func TestReadersAreWarnedUnlessAllWorkIsDone(t *testing.T) {
	r := twoPolicies()
	r.Policies[1].Pods.Pending = 0
	if text := written(t, r.WriteTable); !strings.Contains(text, "stayed pending or failed") {
		t.Errorf("one pod failed, and nobody is warned:\n%s", text)
	}
	r.Policies[1].Pods.Pending, r.Policies[1].Pods.Failed = 0, 0
	if text := written(t, r.WriteTable); strings.Contains(text, "stayed pending") {
		t.Errorf("warned for nothing:\n%s", text)
	}
}

func TestOnePolicyIsComparedWithNone(t *testing.T) {
	text := written(t, named("only").WriteTable)
	if got := rowOf(t, text, "only"); got[3] != "-" || strings.Contains(text, "first policy") {
		t.Errorf("saved is %s, want none:\n%s", got[3], text)
	}
}

func TestAReportWithoutPoliciesHasNoTable(t *testing.T) {
	if got, want := written(t, Report{Scenario: "s", Seed: 3}.WriteTable), "Scenario s, seed 3, 0 policies.\n"; got != want {
		t.Errorf("table is %q, want %q", got, want)
	}
}

func TestTheTableOfALargeRunStaysBelow150Columns(t *testing.T) {
	r := Report{Scenario: strings.Repeat("long ", 50)}
	for i := range 10 {
		r.Policies = append(r.Policies, Policy{
			Name: strings.Repeat("n", 10*i), CostDollars: 99_999.99, LowerBoundDollars: 50_000, ServedBoundDollars: 60_000, ServedBoundWaitSeconds: 10_000, ServiceWaitSeconds: 86_400, EnergyJoules: 1e11,
			Pods:       Pods{Submitted: 99_999, Completed: 99_000, Pending: 999},
			Scheduling: Waits{Mean: 10_000, P95: 86_400}, Utilization: Utilization{CPU: 1, Memory: 1},
			Nodes: Nodes{Peak: 9999, Hours: 99_999}, Moves: Moves{Migrations: 9999, Evictions: 9999, LostWorkSeconds: 1e6},
			PendingReasons: map[string]int64{strings.Repeat("because ", 50): 999},
		})
	}
	for line := range strings.Lines(written(t, r.WriteTable)) {
		if runes := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); runes > 150 {
			t.Errorf("line has %d columns: %s", runes, line)
		}
	}
}

func TestHostileNamesStayInTheirCell(t *testing.T) {
	for i, hostile := range []string{"a\tb\tc", "a\nb 1 2 3", "\x1b[2J", "\v\f", "\xff\xfe"} {
		r := twoPolicies()
		r.Policies[1].Name, r.Scenario = hostile, hostile
		r.Policies[1].PendingReasons = map[string]int64{hostile: 1}
		text := written(t, r.WriteTable)
		if got, want := strings.Count(text, "\n"), strings.Count(written(t, twoPolicies().WriteTable), "\n"); got != want {
			t.Errorf("%d: table has %d lines, want %d:\n%s", i, got, want, text)
		}
		for _, bad := range []string{"\t", "\x1b", "\v", "\f", "\xff"} {
			if strings.Contains(text, bad) {
				t.Errorf("%d: table contains %q", i, bad)
			}
		}
		if fields := rowOf(t, text, fmt.Sprint(shown(hostile))); len(fields) < 15 {
			t.Errorf("%d: row is %q, want 15 parts and more", i, fields)
		}
	}
}
