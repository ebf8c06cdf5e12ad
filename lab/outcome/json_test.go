package outcome

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAReportComesBackFromJSONAsItWas(t *testing.T) {
	for _, r := range []Report{twoPolicies(), named("only"), named("a", "b"), {}} {
		text := written(t, r.WriteJSON)
		var got Report
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("report (-written +read):\n%s", diff)
		}
	}
}

// TestTheFieldsOfTheJSONAreAContract has the complete document, because other programs read these
// names.
func TestTheFieldsOfTheJSONAreAContract(t *testing.T) {
	r := Report{Scenario: "s", Seed: 18446744073709551615, Policies: []Policy{{
		Name: "p", CostDollars: 1.5, LowerBoundDollars: 1, ServedBoundDollars: 1.25, ServedBoundWaitSeconds: 30, ServiceWaitSeconds: 20, EnergyJoules: 2, MakespanSeconds: 3, EndSeconds: 4,
		Energy: &Energy{TaskJoules: 1, IdleJoules: 2, EndWatts: 4, SameEndJoules: 5, Dollars: 6, CarbonGrams: 7, MachineTypes: []MachineEnergy{
			{MachineType: "m", Joules: 6, TaskJoules: 1, IdleJoules: 2},
		}},
		Runtime: &Waits{Mean: 5, P50: 6, P95: 7, Max: 8}, Response: &Waits{Mean: 6, P50: 7, P95: 8, Max: 9},
		Pods:       Pods{Submitted: 1, Scheduled: 2, Completed: 3, Pending: 4, Failed: 5},
		Scheduling: Waits{Mean: 1, P50: 2, P95: 3, Max: 4}, Utilization: Utilization{CPU: 0.5, Memory: 0.25},
		Nodes: Nodes{Start: 1, Peak: 2, Added: 3, Removed: 4, Hours: 5}, Moves: Moves{1, 2, 3, 4, 5, 6},
		Events: map[string]int64{"b": 1, "a": 2}, PendingReasons: map[string]int64{"r": 1}, WallSeconds: 0.5,
		Series: Series{StepSeconds: 1, CostDollars: []float64{1}, CPU: []float64{2}, Memory: []float64{3}, Machines: []int{4}, Pending: []int{5}, Moves: []int{6}},
	}}}
	const want = `{"scenario":"s","seed":18446744073709551615,"policies":[{"name":"p","costDollars":1.5,"lowerBoundDollars":1,"servedBoundDollars":1.25,"servedBoundWaitSeconds":30,"serviceWaitSeconds":20,` +
		`"energyJoules":2,"energy":{"taskJoules":1,"idleJoules":2,"endWatts":4,"sameEndJoules":5,"dollars":6,"carbonGrams":7,` +
		`"machineTypes":[{"machineType":"m","joules":6,"taskJoules":1,"idleJoules":2}]},` +
		`"runtimeSeconds":{"mean":5,"p50":6,"p95":7,"max":8},"responseSeconds":{"mean":6,"p50":7,"p95":8,"max":9},` +
		`"makespanSeconds":3,"endSeconds":4,` +
		`"pods":{"submitted":1,"scheduled":2,"completed":3,"pending":4,"failed":5},"schedulingSeconds":{"mean":1,"p50":2,"p95":3,"max":4},` +
		`"utilization":{"cpu":0.5,"memory":0.25},"nodes":{"start":1,"peak":2,"added":3,"removed":4,"hours":5},` +
		`"moves":{"migrations":1,"evictions":2,"lostWorkSeconds":3,"frozenSeconds":4,"expectedSavedJoules":5,"expectedAddedJoules":6},"events":{"a":2,"b":1},"pendingReasons":{"r":1},"wallSeconds":0.5,` +
		`"series":{"stepSeconds":1,"costDollars":[1],"cpu":[2],"memory":[3],"machines":[4],"pending":[5],"moves":[6]}}]}`
	if diff := cmp.Diff(want, squeezed(written(t, r.WriteJSON))); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}

// TestAPolicyThatFailedHasNoFiguresInJSON is part of the contract too: no figure is 0 that is not known.
func TestAPolicyThatFailedHasNoFiguresInJSON(t *testing.T) {
	r := Report{Scenario: "s", Seed: 1, Policies: []Policy{{Name: "p", Error: "no room"}}, BoundsError: "unknown"}
	const want = `{"scenario":"s","seed":1,"policies":[{"name":"p","error":"noroom"}],"boundsError":"unknown"}`
	if diff := cmp.Diff(want, squeezed(written(t, r.WriteJSON))); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}

// squeezed removes the white space from JSON that has none in its strings.
func squeezed(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, ": ", ":")), "")
}

func TestListsAndMapsAreNeverNullInJSON(t *testing.T) {
	for _, r := range []Report{{}, named("a")} {
		text := written(t, r.WriteJSON)
		if strings.Contains(text, "null") {
			t.Errorf("document contains null:\n%s", text)
		}
		if !strings.HasPrefix(text, "{\n  \"scenario\"") || !strings.HasSuffix(text, "}\n") {
			t.Errorf("document is not indented or does not end in a newline:\n%s", text)
		}
	}
}
