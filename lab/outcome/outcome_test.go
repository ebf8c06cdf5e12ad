package outcome

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// twoPolicies returns a small report with simple figures: the second policy costs four fifths of
// the first, and both are above a bound of 60 dollars.
func twoPolicies() Report {
	return Report{
		Scenario: "two days",
		Seed:     7,
		Policies: []Policy{
			{
				Name: "default", CostDollars: 100, LowerBoundDollars: 60, EnergyJoules: 36e6, MakespanSeconds: 7000, EndSeconds: 7200,
				Pods:       Pods{Submitted: 50, Scheduled: 50, Completed: 48},
				Scheduling: Waits{Mean: 12, P50: 10, P95: 40, Max: 55}, Utilization: Utilization{CPU: 0.5, Memory: 0.25},
				Nodes:  Nodes{Start: 1, Peak: 9, Added: 8, Removed: 9, Hours: 16},
				Events: map[string]int64{"arrival": 50, "end": 48},
				Series: Series{
					StepSeconds: 3600, CostDollars: []float64{0, 40, 100}, CPU: []float64{0, 0.5, 0.75}, Memory: []float64{0, 0.25, 0.5},
					Machines: []int{1, 9, 4}, Pending: []int{0, 3, 0}, Moves: []int{0, 0, 0},
				},
			},
			{
				Name: "packing", CostDollars: 80, LowerBoundDollars: 60, EnergyJoules: 18e6, MakespanSeconds: 6000, EndSeconds: 6500,
				Pods:       Pods{Submitted: 50, Scheduled: 49, Completed: 46, Pending: 1, Failed: 1},
				Scheduling: Waits{Mean: 24, P50: 20, P95: 90, Max: 100}, Utilization: Utilization{CPU: 0.625, Memory: 0.375},
				Nodes:          Nodes{Start: 1, Peak: 7, Added: 6, Removed: 7, Hours: 12.5},
				Moves:          Moves{Migrations: 4, Evictions: 2, LostWorkSeconds: 90},
				Events:         map[string]int64{"arrival": 50, "move": 6},
				PendingReasons: map[string]int64{"too large": 1},
				WallSeconds:    0.5,
				Series: Series{
					StepSeconds: 3600, CostDollars: []float64{0, 50}, CPU: []float64{0, 1}, Memory: []float64{0, 0.5},
					Machines: []int{1, 7}, Pending: []int{2, 1}, Moves: []int{0, 6},
				},
			},
		},
	}
}

// named returns a report of policies with these names and nothing else.
func named(names ...string) Report {
	r := Report{Scenario: "s", Seed: 1}
	for _, name := range names {
		r.Policies = append(r.Policies, Policy{Name: name})
	}
	return r
}

// writer is one of the ways to write a report or a summary.
type writer struct {
	name  string
	write func(io.Writer) error
}

func writersOf(r Report) []writer {
	return []writer{{"JSON", r.WriteJSON}, {"table", r.WriteTable}, {"HTML", r.WriteHTML}}
}

// written returns the output, and fails the test on an error.
func written(t testing.TB, write func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTheSameReportGivesTheSameBytes(t *testing.T) {
	for _, w := range writersOf(twoPolicies()) {
		first := written(t, w.write)
		for range 20 { // the order of maps differs each time
			if again := written(t, w.write); again != first {
				t.Errorf("%s differs from one time to the next:\n%s\n%s", w.name, first, again)
				break
			}
		}
	}
}

func TestWritingLeavesTheReportAsItWas(t *testing.T) {
	r := named("a", "b")
	for _, w := range writersOf(r) {
		written(t, w.write)
	}
	if r.Policies[0].Events != nil || r.Policies[1].Series.Moves != nil {
		t.Errorf("report has become %+v", r)
	}
}

func TestAFailingWriterIsReported(t *testing.T) {
	for _, w := range writersOf(twoPolicies()) {
		if err := w.write(fullDisk{}); err == nil || !strings.Contains(err.Error(), io.ErrShortWrite.Error()) {
			t.Errorf("%s: error is %v, want that of the writer", w.name, err)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
