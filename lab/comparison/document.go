package comparison

import (
	"encoding/csv"
	"io"
	"strconv"

	"supercargo.dev/supercargo/lab/outcome"
	"supercargo.dev/supercargo/lab/sim"
)

// Document is the result of a comparison in all its output formats.
type Document interface {
	WriteJSON(io.Writer) error
	WriteTable(io.Writer) error
	WriteHTML(io.Writer) error
}

// Document returns a report of one seed, or a summary of several.
func (r *Result) Document() (Document, error) {
	p := r.plan
	reports := make([]outcome.Report, len(p.workloads))
	for i := range p.workloads {
		reports[i] = outcome.Report{Scenario: p.scenario.Name, Seed: p.seed + uint64(i)}
		if err := r.bounds[i].err; err != nil {
			reports[i].BoundsError = err.Error()
		}
		for _, run := range r.Runs[i*len(p.policies) : (i+1)*len(p.policies)] {
			reports[i].Policies = append(reports[i].Policies, run.outcome(r.bounds[i].Bounds))
		}
		reports[i].SameEnd()
	}
	if len(reports) == 1 {
		return reports[0], nil
	}
	return outcome.Summarize(reports)
}

func (r *Run) outcome(least sim.Bounds) outcome.Policy {
	if r.Err != nil {
		return outcome.Policy{Name: r.Policy, Error: r.Err.Error()}
	}
	return r.Result.Outcome(r.Policy, least, r.Wall)
}

// WritePlacements writes a CSV row for each placement, ordered by run and then by time.
func (r *Result) WritePlacements(w io.Writer) error {
	rows := csv.NewWriter(w)
	if err := rows.Write([]string{"time_s", "pod", "node", "flavor", "reason", "policy", "seed"}); err != nil {
		return err
	}
	for _, run := range r.Runs {
		if run.Err != nil {
			continue
		}
		seed := strconv.FormatUint(run.Seed, 10)
		for _, p := range run.Result.Placements {
			time := strconv.FormatFloat(p.At.Seconds(), 'f', -1, 64)
			if err := rows.Write([]string{time, p.Pod, p.Node, p.Flavor, p.Reason, run.Policy, seed}); err != nil {
				return err
			}
		}
	}
	rows.Flush()
	return rows.Error()
}
