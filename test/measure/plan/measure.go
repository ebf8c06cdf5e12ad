package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/test/measure/process"
	"supercargo.dev/supercargo/test/plancheck"
)

// Workload is one set of pods and flavors, with the results of each planner.
type Workload struct {
	Name    string `json:"name"`
	Pods    int    `json:"pods"`
	Flavors int    `json:"flavors"`
	Seed    uint64 `json:"seed"`
	// Family means that it is one of the families.
	Family bool `json:"family,omitempty"`
	// LowerBoundPerHour is the greatest bound that any planner proved, in dollars.
	LowerBoundPerHour float64             `json:"lowerBoundPerHour"`
	Planners          map[string]*Figures `json:"planners"`
	// KarpenterToSupercargo and GreedyToSupercargo are ratios of prices, or 0 if one of the two has no plan
	// for all pods.
	KarpenterToSupercargo float64 `json:"karpenterToSupercargo"`
	GreedyToSupercargo    float64 `json:"greedyToSupercargo"`

	pods                  []planfile.Pod
	flavors               []planfile.Flavor
	podsFile, flavorsFile string
	planners              []*Figures
}

// Figures contains the results of one planner for a workload.
type Figures struct {
	Planner string `json:"-"`
	// LeftOut is the reason why it did not run, or did not end.
	LeftOut string `json:"leftOut,omitempty"`
	// PricePerHour is the price of the cheapest plan of all rounds, in dollars, and Gap its excess over
	// LowerBoundPerHour relative to that bound; 0 without a bound.
	PricePerHour float64 `json:"pricePerHour"`
	Gap          float64 `json:"gap"`
	Machines     int     `json:"machines"`
	Unplaceable  int     `json:"unplaceable"`
	// PlanningMillis is the time of only the planning and ProcessMillis the time from start to exit, each the
	// minimum of all rounds.
	PlanningMillis float64 `json:"planningMillis"`
	ProcessMillis  float64 `json:"processMillis"`
	// PeakMemoryMiB is the peak resident memory, the maximum of all rounds.
	PeakMemoryMiB float64 `json:"peakMemoryMiB"`
	// Fault is the checker's error for the last invalid plan, and Wrong the number of rounds with an invalid
	// plan. Prices and machines are those of valid plans.
	Fault string `json:"fault,omitempty"`
	Wrong int    `json:"wrong,omitempty"`

	right int // rounds
}

// slow is the time in milliseconds after which a planner is not run again.
const slow = 30_000

// measure runs all planners in turn.
func (w *Workload) measure(ctx context.Context, s settings) error {
	w.Planners = map[string]*Figures{}
	for round := range s.rounds {
		for _, f := range w.planners {
			w.Planners[f.Planner] = f
			if f.LeftOut != "" || f.ProcessMillis > slow {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s, %d pods, seed %d, round %d of %d: %s\n", w.Name, w.Pods, w.Seed, round+1, s.rounds, f.Planner)
			if err := w.once(ctx, s, f); err != nil {
				return fmt.Errorf("%s: %w", f.Planner, err)
			}
		}
	}
	for _, f := range w.planners {
		if f.right > 0 && w.LowerBoundPerHour > 0 {
			f.Gap = f.PricePerHour/w.LowerBoundPerHour - 1
		}
	}
	ours := w.Planners["supercargo"]
	w.KarpenterToSupercargo, w.GreedyToSupercargo = ratio(w.Planners["karpenter"], ours), ratio(w.Planners["greedy"], ours)
	return nil
}

// ratio compares the prices of two plans for the same pods.
func ratio(theirs, ours *Figures) float64 {
	for _, f := range []*Figures{theirs, ours} {
		if f.right == 0 || f.Unplaceable > 0 {
			return 0
		}
	}
	return theirs.PricePerHour / ours.PricePerHour
}

// once runs a planner once.
func (w *Workload) once(ctx context.Context, s settings, f *Figures) error {
	limited, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	program, args := s.karpenter, []string{"--pods", w.podsFile, "--flavors", w.flavorsFile}
	if f.Planner != "karpenter" {
		program, args = s.supercargo, append([]string{"plan", "-o", "json", "--algorithm", f.Planner}, args...)
	}
	out, used, err := process.Output(limited, program, args...)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		f.LeftOut = fmt.Sprintf("did not end within %v", s.patience)
		return nil
	case err != nil:
		f.LeftOut = "failed: " + strings.TrimSpace(err.Error())
		return nil
	}
	var d planfile.Document
	if err := json.Unmarshal(out, &d); err != nil {
		return err
	}
	wrong := plancheck.Plan(w.pods, w.flavors, d)
	w.LowerBoundPerHour = max(w.LowerBoundPerHour, d.LowerBoundPerHour)
	f.Unplaceable = max(f.Unplaceable, len(d.Unplaceable))
	f.keep(d, wrong)
	f.PeakMemoryMiB = max(f.PeakMemoryMiB, used.PeakMemoryMiB)
	f.PlanningMillis = least(f.PlanningMillis, d.ElapsedMillis)
	f.ProcessMillis = least(f.ProcessMillis, float64(used.Time.Microseconds())/1000)
	return nil
}

// keep keeps the cheapest of the valid plans, because Karpenter's differ from run to run.
func (f *Figures) keep(d planfile.Document, wrong error) {
	if wrong != nil {
		f.Fault = wrong.Error()
		f.Wrong++
		return
	}
	if f.right++; f.right == 1 || d.PricePerHour < f.PricePerHour {
		f.PricePerHour, f.Machines = d.PricePerHour, len(d.Purchases)
	}
}

// least returns the lesser of a value so far, 0 if there is none, and a new one.
func least(soFar, next float64) float64 {
	if soFar == 0 {
		return next
	}
	return min(soFar, next)
}
