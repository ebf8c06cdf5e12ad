package outcome

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// drawn returns a run of two policies, the second of which has the given figures.
func drawn(seed uint64, joules, sameEnd, runtime, makespan, saved float64) Report {
	r := named("first", "second")
	r.Scenario, r.Seed = "s", seed
	r.Policies[0].EnergyJoules, r.Policies[0].Energy = 200_000, &Energy{TaskJoules: 90_000, SameEndJoules: 400_000}
	r.Policies[0].Runtime, r.Policies[0].MakespanSeconds = &Waits{Mean: 50}, 100
	r.Policies[1].EnergyJoules, r.Policies[1].Energy = joules, &Energy{TaskJoules: 80_000, SameEndJoules: sameEnd}
	r.Policies[1].Runtime, r.Policies[1].MakespanSeconds = &Waits{Mean: runtime}, makespan
	r.Policies[1].Moves = Moves{ExpectedSavedJoules: saved, ExpectedAddedJoules: 2 * saved}
	return r
}

func TestEnergyOverSeedsIsComparedSeedBySeed(t *testing.T) {
	s := summaryOf(t, []Report{drawn(1, 150_000, 300_000, 40, 90, 10), drawn(2, 190_000, 420_000, 55, 120, 30)})
	want := &EnergySummary{
		SavedPercent: &Spread{15, 5, 25}, SameEndJoules: Spread{360_000, 300_000, 420_000}, SameEndSavedPercent: &Spread{10, -5, 25},
		TaskJoules: Spread{80_000, 80_000, 80_000}, RuntimeSecondsMean: Spread{47.5, 40, 55}, LongerPercent: &Spread{-5, -20, 10},
		MakespanSeconds: Spread{105, 90, 120}, LaterPercent: &Spread{5, -10, 20},
		ExpectedSavedJoules: Spread{20, 10, 30}, ExpectedAddedJoules: Spread{40, 20, 60},
	}
	if diff := cmp.Diff(want, s.Policies[1].Energy, cmpopts.EquateApprox(1e-12, 1e-9)); diff != "" {
		t.Errorf("energy (-want +got):\n%s", diff)
	}
	if text := strings.Join(strings.Fields(written(t, s.WriteTable)), " "); !strings.Contains(text, "second 15.0 [5.0, 25.0] 360 [300, 420] 10.0 [-5.0, 25.0] 80.0 [80.0, 80.0] 47.5 [40.0, 55.0] -5.0 [-20.0, 10.0] 105 [90, 120]") {
		t.Errorf("figures are missing:\n%s", text)
	}
}

// TestWhatEnergyCostsOverSeedsIsThereWhereItIsKnown: without prices there is no column.
func TestWhatEnergyCostsOverSeedsIsThereWhereItIsKnown(t *testing.T) {
	reports := []Report{drawn(1, 150_000, 300_000, 40, 90, 10), drawn(2, 190_000, 420_000, 55, 120, 30)}
	if text := written(t, summaryOf(t, reports).WriteTable); strings.Contains(text, "electricity") || strings.Contains(text, "carbon") {
		t.Errorf("there are columns without figures:\n%s", text)
	}
	for i := range reports {
		reports[i].Policies[1].Energy.Dollars, reports[i].Policies[1].Energy.CarbonGrams = 0.25+float64(i), 30
	}
	s := summaryOf(t, reports)
	if e := s.Policies[1].Energy; e.Dollars != (Spread{0.75, 0.25, 1.25}) || e.CarbonGrams != (Spread{30, 30, 30}) {
		t.Errorf("%+v, want $0.75 and 30 g", e)
	}
	text := strings.Join(strings.Fields(written(t, s.WriteTable)), " ")
	for _, want := range []string{"electricity", "carbon", "0.75 [0.25, 1.25] 30.0 [30.0, 30.0]"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
}

func TestEnergyOverSeedsIsLeftOutWhereOneRunDoesNotKnowIt(t *testing.T) {
	reports := []Report{drawn(1, 150_000, 300_000, 40, 90, 0), drawn(2, 190_000, 420_000, 55, 120, 0)}
	reports[1].Policies[1].Energy = nil
	s := summaryOf(t, reports)
	if s.Policies[1].Energy != nil || s.Policies[0].Energy == nil {
		t.Errorf("energy of the first %v and of the second %v, want only that of the first", s.Policies[0].Energy, s.Policies[1].Energy)
	}
	written(t, s.WriteTable)
	reports = []Report{drawn(1, 150_000, 300_000, 40, 90, 0)}
	reports[0].Policies[0].EnergyJoules, reports[0].Policies[0].Runtime = 0, nil
	if e := summaryOf(t, reports).Policies[1].Energy; e.SavedPercent != nil || e.LongerPercent != nil || e.SameEndSavedPercent == nil {
		t.Errorf("percentages of nothing: %+v", e)
	}
}
