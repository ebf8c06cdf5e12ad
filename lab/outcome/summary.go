package outcome

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"supercargo.dev/supercargo/internal/input"
)

// Summary is the result of the policies on one scenario with several seeds.
type Summary struct {
	// Scenario is the scenario's name.
	Scenario string `json:"scenario"`
	// Seeds are the seeds of the reports, ascending.
	Seeds []uint64 `json:"seeds"`
	// Policies are in the order of the reports.
	Policies []PolicySummary `json:"policies"`
	// BoundsError is why a bound is not known. It is empty if both are known with every seed.
	BoundsError string `json:"boundsError,omitempty"`
}

// PolicySummary is the result of one policy over all seeds. Each figure is computed per seed first.
type PolicySummary struct {
	Name string `json:"name"`
	// Error is why the simulation of the policy failed, with each seed with which it did. The other
	// fields are then unset, and absent in JSON: means over fewer seeds do not compare.
	Error string `json:"error,omitempty"`
	// CostDollars is the bill of all machines, LowerBoundDollars the lower bound under any policy.
	CostDollars       Spread `json:"costDollars"`
	LowerBoundDollars Spread `json:"lowerBoundDollars"`
	// AboveLowerBoundPercent is the distance of the cost above the bound. It is absent if the bound
	// is 0 with any seed.
	AboveLowerBoundPercent *Spread `json:"aboveLowerBoundPercent,omitempty"`
	// ServedBoundDollars and ServedBoundWaitSeconds are those of [Policy]. AboveServedBoundPercent
	// is the distance of the cost above that bound. It is absent if the bound is 0 with any seed.
	ServedBoundDollars      Spread  `json:"servedBoundDollars"`
	ServedBoundWaitSeconds  Spread  `json:"servedBoundWaitSeconds"`
	AboveServedBoundPercent *Spread `json:"aboveServedBoundPercent,omitempty"`
	// ServiceWaitSeconds is that of [Policy].
	ServiceWaitSeconds Spread `json:"serviceWaitSeconds"`
	// SavedPercent is the saving against the first policy with the same seed: negative if this
	// policy cost more, 0 for the first itself. It is absent if the first policy cost nothing with
	// any seed.
	SavedPercent *Spread `json:"savedPercent,omitempty"`
	// EnergyJoules is the energy that the machines drew, or 0 if no flavor states its power. Energy
	// has more figures, and is nil in that case.
	EnergyJoules Spread         `json:"energyJoules"`
	Energy       *EnergySummary `json:"energy,omitempty"`
	// SchedulingSecondsMean and SchedulingSecondsP95 summarize the mean and the 95th percentile,
	// within one run, of the time from submission to first start.
	SchedulingSecondsMean Spread `json:"schedulingSecondsMean"`
	SchedulingSecondsP95  Spread `json:"schedulingSecondsP95"`
	// CPUUtilizationPercent and MemoryUtilizationPercent are shares of the billed capacity, from 0
	// to 100.
	CPUUtilizationPercent    Spread `json:"cpuUtilizationPercent"`
	MemoryUtilizationPercent Spread `json:"memoryUtilizationPercent"`
	// NodeHours are the billed machine hours.
	NodeHours Spread `json:"nodeHours"`
	// Migrations, Evictions and LostWorkSeconds are those of [Moves].
	Migrations      Spread `json:"migrations"`
	Evictions       Spread `json:"evictions"`
	LostWorkSeconds Spread `json:"lostWorkSeconds"`
	// PodsUndone counts the pods that were pending or had failed at the end.
	PodsUndone Spread `json:"podsUndone"`
}

// MarshalJSON leaves out the figures of a policy that failed.
func (p PolicySummary) MarshalJSON() ([]byte, error) {
	if p.Error != "" {
		return json.Marshal(failure{p.Name, p.Error})
	}
	type plain PolicySummary
	return json.Marshal(plain(p))
}

// ended returns the policies that did not fail, with their index.
func (s Summary) ended() iter.Seq2[int, PolicySummary] {
	return func(yield func(int, PolicySummary) bool) {
		for i, p := range s.Policies {
			if p.Error == "" && !yield(i, p) {
				return
			}
		}
	}
}

// hasEnded reports whether there is a policy that did not fail.
func (s Summary) hasEnded() bool {
	for range s.ended() {
		return true
	}
	return false
}

// first returns the first policy that did not fail. Without one, its figures are 0.
func (s Summary) first() PolicySummary {
	for _, p := range s.ended() {
		return p
	}
	return PolicySummary{}
}

// Spread is the mean of a figure over the seeds, with its minimum and maximum.
type Spread struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// Summarize combines reports of one scenario with different seeds. The order of the reports does
// not matter: they are sorted by seed.
//
// It returns an error if there is no report, a seed occurs twice, the scenario or the names or
// order of the policies differ, or a report is invalid for [Report.WriteJSON]. Cost: linear in the
// size of the reports.
func Summarize(reports []Report) (Summary, error) {
	if len(reports) == 0 {
		return Summary{}, errors.New("at least one report is required")
	}
	reports = slices.Clone(reports)
	slices.SortStableFunc(reports, func(a, b Report) int { return cmp.Compare(a.Seed, b.Seed) })
	if err := agree(reports); err != nil {
		return Summary{}, err
	}
	s := Summary{Scenario: reports[0].Scenario}
	var unknown []string
	for _, r := range reports {
		s.Seeds = append(s.Seeds, r.Seed)
		if r.BoundsError != "" {
			unknown = append(unknown, r.BoundsError)
		}
	}
	s.BoundsError = strings.Join(unknown, "; ")
	for i := range reports[0].Policies {
		s.Policies = append(s.Policies, summarizePolicy(reports, i))
	}
	return s, nil
}

// agree returns the reasons why the reports, which are sorted by seed, cannot be combined.
func agree(reports []Report) error {
	var errs input.Faults
	first := reports[0]
	for i, r := range reports {
		if err := r.check(); err != nil {
			errs = append(errs, fmt.Errorf("report of seed %d: %w", r.Seed, err))
		}
		errs.If(r.Scenario != first.Scenario, "scenario is %q with seed %d and %q with seed %d: must be the same", first.Scenario, first.Seed, r.Scenario, r.Seed)
		errs.If(i > 0 && r.Seed == reports[i-1].Seed, "seed %d occurs twice", r.Seed)
		ours, theirs := figures{policies: first.Policies}.names(), figures{policies: r.Policies}.names()
		errs.If(!slices.Equal(ours, theirs), "policies are %q with seed %d and %q with seed %d: must be the same in the same order", ours, first.Seed, theirs, r.Seed)
	}
	return errors.Join(errs...)
}

// errorsOf returns why policy i failed, with each seed with which it did.
func errorsOf(reports []Report, i int) string {
	var errs []string
	for _, r := range reports {
		if err := r.Policies[i].Error; err != "" {
			errs = append(errs, fmt.Sprintf("with seed %d: %s", r.Seed, err))
		}
	}
	return strings.Join(errs, "; ")
}

// summarizePolicy combines the figures of policy i in all reports.
func summarizePolicy(reports []Report, i int) PolicySummary {
	if failed := errorsOf(reports, i); failed != "" {
		return PolicySummary{Name: reports[0].Policies[i].Name, Error: failed}
	}
	spread, percent := over(reports, i)
	above := func(bound func(Policy) float64) *Spread {
		return percent(func(own, _ Policy) (float64, bool) { return percentAbove(own.CostDollars, bound(own)) })
	}
	bound := func(figure func(Policy) float64) Spread {
		for _, r := range reports {
			if r.BoundsError != "" && figure(r.Policies[i]) == 0 {
				return Spread{} // not known
			}
		}
		return spread(figure)
	}
	return PolicySummary{
		Name:                     reports[0].Policies[i].Name,
		CostDollars:              spread(func(p Policy) float64 { return p.CostDollars }),
		LowerBoundDollars:        bound(func(p Policy) float64 { return p.LowerBoundDollars }),
		AboveLowerBoundPercent:   above(func(p Policy) float64 { return p.LowerBoundDollars }),
		ServedBoundDollars:       bound(servedBound),
		ServedBoundWaitSeconds:   bound(func(p Policy) float64 { return p.ServedBoundWaitSeconds }),
		AboveServedBoundPercent:  above(func(p Policy) float64 { return p.ServedBoundDollars }),
		ServiceWaitSeconds:       spread(func(p Policy) float64 { return p.ServiceWaitSeconds }),
		SavedPercent:             percent(func(own, first Policy) (float64, bool) { return percentBelow(own.CostDollars, first.CostDollars) }),
		EnergyJoules:             spread(func(p Policy) float64 { return p.EnergyJoules }),
		Energy:                   energySummary(reports, i),
		SchedulingSecondsMean:    spread(func(p Policy) float64 { return p.Scheduling.Mean }),
		SchedulingSecondsP95:     spread(func(p Policy) float64 { return p.Scheduling.P95 }),
		CPUUtilizationPercent:    spread(func(p Policy) float64 { return 100 * p.Utilization.CPU }),
		MemoryUtilizationPercent: spread(func(p Policy) float64 { return 100 * p.Utilization.Memory }),
		NodeHours:                spread(func(p Policy) float64 { return p.Nodes.Hours }),
		Migrations:               spread(func(p Policy) float64 { return float64(p.Moves.Migrations) }),
		Evictions:                spread(func(p Policy) float64 { return float64(p.Moves.Evictions) }),
		LostWorkSeconds:          spread(func(p Policy) float64 { return p.Moves.LostWorkSeconds }),
		PodsUndone:               spread(func(p Policy) float64 { return float64(p.unfinished()) }),
	}
}

// over returns functions that make spreads over the reports: of a figure of policy i, and of a
// percentage that also depends on the first policy. The latter is nil unless the percentage exists
// with every seed.
func over(reports []Report, i int) (spread func(func(Policy) float64) Spread, percent func(func(own, first Policy) (float64, bool)) *Spread) {
	spread = func(figure func(Policy) float64) Spread {
		values := make([]float64, len(reports))
		for j, r := range reports {
			values[j] = figure(r.Policies[i])
		}
		return spreadOf(values)
	}
	percent = func(of func(own, first Policy) (float64, bool)) *Spread {
		values := make([]float64, len(reports))
		for j, r := range reports {
			var ok bool
			if values[j], ok = of(r.Policies[i], r.Policies[0]); !ok {
				return nil
			}
		}
		return new(spreadOf(values))
	}
	return spread, percent
}

// spreadOf returns the spread of at least one value.
func spreadOf(values []float64) Spread {
	s := Spread{Min: slices.Min(values), Max: slices.Max(values)}
	for _, v := range values {
		s.Mean += v / float64(len(values))
	}
	s.Mean = min(max(s.Mean, s.Min), s.Max) // rounding may put it outside equal values
	return s
}
