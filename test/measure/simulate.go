package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/test/measure/process"
)

// Figures contains the measurements of one run.
type Figures struct {
	Name     string `json:"name"`
	Scenario string `json:"scenario"`
	Policy   string `json:"policy"`
	Pods     int    `json:"pods"`
	Pending  int    `json:"pending"`
	// Seconds is the wall time from start to exit, the minimum of all rounds.
	Seconds float64 `json:"seconds"`
	// PeakMemoryMiB is the peak resident memory, the maximum of all rounds.
	PeakMemoryMiB float64 `json:"peakMemoryMiB"`
}

// Summary is the output.
type Summary struct {
	Runs []*Figures `json:"runs"`
	// OursToStock is the time of supercargo on the trace over that of default.
	OursToStock float64 `json:"oursToStock"`
	// LongToShort is the time per pod of a run of ten hours over that of one hour
	// with the same load.
	LongToShort float64 `json:"longToShort"`
}

// simulateCommand measures the time and memory of `supercargo-lab simulate`, each time in its own process, and prints
// JSON. Only the ratios apply to other machines: Supercargo's time to the stock profile's, and the time per pod of a
// long run to that of a short one.
func simulateCommand() *cobra.Command {
	var binary, scenarios string
	var rounds int
	cmd := &cobra.Command{
		Use: "simulate", Short: "Measure time and memory of supercargo-lab simulate", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measureSimulate(cmd.Context(), binary, scenarios, rounds)
		},
	}
	cmd.Flags().StringVar(&binary, "binary", "bin/supercargo-lab", "supercargo-lab")
	cmd.Flags().StringVar(&scenarios, "scenarios", "test/scenarios", "folder of scenarios")
	cmd.Flags().IntVar(&rounds, "rounds", 3, "how often to run each")
	return cmd
}

func measureSimulate(ctx context.Context, binary, scenarios string, rounds int) (err error) {
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	openb, many := filepath.Join(scenarios, "openb.yaml"), filepath.Join(scenarios, "hundred-thousand.yaml")
	short, err := steady(many, dir, "60m")
	if err != nil {
		return err
	}
	long, err := steady(many, dir, "600m")
	if err != nil {
		return err
	}
	summary := Summary{Runs: []*Figures{
		{Name: "trace, ours", Scenario: openb, Policy: "supercargo"},
		{Name: "trace, stock", Scenario: openb, Policy: "default"},
		{Name: "one hour", Scenario: short, Policy: "htas"},
		{Name: "ten hours", Scenario: long, Policy: "htas"},
		{Name: "100,000 pods, htas", Scenario: many, Policy: "htas"},
		{Name: "100,000 pods, ours", Scenario: many, Policy: "supercargo"},
	}}
	for round := range rounds {
		for _, f := range summary.Runs {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, rounds, f.Name)
			if err := f.measure(ctx, binary); err != nil {
				return fmt.Errorf("measure %s: %w", f.Name, err)
			}
		}
	}
	r := summary.Runs
	summary.OursToStock = r[0].Seconds / r[1].Seconds
	summary.LongToShort = r[3].Seconds / float64(r[3].Pods) / (r[2].Seconds / float64(r[2].Pods))
	for _, f := range r {
		f.Scenario = filepath.Base(f.Scenario)
	}
	return jsondoc.Write(os.Stdout, summary)
}

// steady writes a scenario with a tenth of the load, without services, and with the given horizon.
func steady(from, dir, horizon string) (string, error) {
	text, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	edits := []string{"horizon: 100m", "horizon: " + horizon, "rate: 1000/m", "rate: 100/m", ", nginx: 1", "", "name: hundred-thousand", "name: steady-" + horizon}
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(string(text), edits[i]) {
			return "", fmt.Errorf("%s has no %q", from, edits[i])
		}
	}
	to := filepath.Join(dir, "steady-"+horizon+".yaml")
	return to, os.WriteFile(to, []byte(strings.NewReplacer(edits...).Replace(string(text))), 0o600)
}

// measure runs a simulation once.
func (f *Figures) measure(ctx context.Context, binary string) error {
	out, used, err := process.Output(ctx, binary, "simulate", "-f", f.Scenario, "--policy", f.Policy, "-o", "json", "--deterministic")
	if err != nil {
		return err
	}
	var doc struct {
		Policies []struct {
			Pods struct{ Submitted, Pending int }
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return err
	}
	f.Pods, f.Pending = doc.Policies[0].Pods.Submitted, doc.Policies[0].Pods.Pending
	f.PeakMemoryMiB = max(f.PeakMemoryMiB, used.PeakMemoryMiB)
	if took := used.Time.Seconds(); f.Seconds == 0 || took < f.Seconds {
		f.Seconds = took
	}
	return nil
}
