package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// variant is one change of the scenarios.
type variant struct {
	name string
	// edit changes the text of the scenario; nil does not change it.
	edit func(text string) string
	// htas, if not nil, replaces the policy htas.
	htas *sim.Policy
}

// replaced replaces one line of the scenario, given verbatim.
func replaced(before, after string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, before) {
			panic(fmt.Sprintf("the scenario has no %q", before))
		}
		return strings.ReplaceAll(text, before, after)
	}
}

// rates multiplies all arrival rates.
func rates(factor float64) func(string) string {
	return func(text string) string {
		for _, perMinute := range []float64{24, 20, 14, 8, 2} { // in descending order, because other rates end in "2/m"
			before := fmt.Sprintf("ate: %g/m", perMinute)
			text = strings.ReplaceAll(text, before, fmt.Sprintf("ate: %g/h", perMinute*factor*60))
		}
		return text
	}
}

func with(underUsedFor, queueEmpty time.Duration) *sim.Policy {
	p := policy.HTASWith(underUsedFor, queueEmpty)
	return &p
}

// named returns the policy of that name. supercargo-DURATION is supercargo with a fleet whose pods may wait
// for DURATION longer than a machine takes to arrive.
func named(name string) (sim.Policy, error) {
	text, waits := strings.CutPrefix(name, "supercargo-")
	if !waits {
		return policy.ByName(name)
	}
	most, err := time.ParseDuration(text)
	if err != nil {
		return sim.Policy{}, fmt.Errorf("policy %s: %w", name, err)
	}
	return policy.FleetWith(func(s *v1alpha1.NodeFleetSpec) { s.Scaling.MaxWait.Duration = most }), nil
}

func variants() []variant {
	return []variant{
		{name: "as chosen"},
		{name: "half the arrivals", edit: rates(0.5)},
		{name: "twice the arrivals", edit: rates(2)},
		{name: "horizon 2 h", edit: replaced("horizon: 1h", "horizon: 2h")},
		{name: "no services", edit: replaced(", nginx: 1", "")},
		{name: "three times the services", edit: replaced("nginx: 1", "nginx: 3")},
		{name: "large tasks as many as small", edit: replaced("batch_large: 1", "batch_large: 5")},
		{name: "acquisition lag 60 s", edit: replaced("acquisitionLag: 150s", "acquisitionLag: 60s")},
		{name: "acquisition lag 300 s", edit: replaced("acquisitionLag: 150s", "acquisitionLag: 300s")},
		{name: "paid from Ready", edit: replaced("  releaseLag", "  billedFrom: ready\n  releaseLag")},
		{name: "paid by the hour", edit: replaced("billingPeriod: 1m", "billingPeriod: 1h")},
		{name: "HTAS: under-used for 20 s", htas: with(20*time.Second, 5*time.Minute)},
		{name: "HTAS: under-used for 5 min", htas: with(5*time.Minute, 5*time.Minute)},
		{name: "HTAS: queue empty for 20 s", htas: with(time.Minute, 20*time.Second)},
	}
}

// sensitivity varies, one at a time, the parameters that the HTAS paper leaves open. For each policy it prints the
// savings over default, in percent, and for how many minutes pods wait, with default last: means over the seeds. The
// output is a Markdown table.
type sensitivity struct {
	experiments
	compared []string // policies that are compared with default
	rows     string
}

func sensitivityCommand() *cobra.Command {
	var o sensitivity
	cmd := &cobra.Command{
		Use: "sensitivity", Short: "Vary what the HTAS paper leaves open, one thing at a time", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.flags(cmd.Flags())
	cmd.Flags().StringSliceVar(&o.compared, "policies", []string{"coca", "stratus", "htas", "supercargo"},
		"policies to compare with default; supercargo-10m is supercargo with scaling.maxWait: 10m")
	cmd.Flags().StringVar(&o.rows, "rows", "", "only rows whose names contain this")
	return cmd
}

func (o *sensitivity) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	fmt.Printf("| | %s |\n|---|", strings.Join(patterns, " | "))
	fmt.Println(strings.Repeat("---|", len(patterns)))
	for _, v := range variants() {
		if v.htas != nil && !slices.Contains(o.compared, "htas") {
			continue // the row would repeat the first
		}
		if !strings.Contains(v.name, o.rows) {
			continue
		}
		fmt.Printf("| %s |", v.name)
		for _, pattern := range patterns {
			saved, err := o.saved(ctx, v, filepath.Join(o.dir, "htas-"+pattern+".yaml"))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", v.name, pattern, err)
			}
			fmt.Printf(" %s |", saved)
		}
		fmt.Println()
	}
	return nil
}

// saved returns the savings of the compared policies in percent, and how long pods wait.
func (o *sensitivity) saved(ctx context.Context, v variant, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	edited := string(text)
	if v.edit != nil {
		edited = v.edit(edited)
	}
	s, err := scenario.Read(file, []byte(edited), nil)
	if err != nil {
		return "", err
	}
	policies, err := v.policies(append([]string{"default"}, o.compared...))
	if err != nil {
		return "", err
	}
	results, err := simulate(ctx, s, o.seeds, policies...)
	if err != nil {
		return "", err
	}
	saved, waited := make([]string, len(o.compared)), make([]string, len(policies))
	for i := range o.compared {
		var sum float64
		for seed := range o.seeds {
			sum += 1 - float64(results[i+1][seed].CostMicroDollars)/float64(results[0][seed].CostMicroDollars)
		}
		saved[i] = fmt.Sprintf("%.0f", 100*sum/float64(o.seeds))
	}
	for i, at := 0, 1; i < len(policies); i, at = i+1, (at+1)%len(policies) {
		var sum time.Duration
		for seed := range results[at] {
			sum += results[at][seed].MeanWait()
		}
		waited[i] = fmt.Sprintf("%.1f", (sum / time.Duration(o.seeds)).Minutes())
	}
	return strings.Join(saved, " / ") + "; " + strings.Join(waited, " / "), nil
}

// policies returns the policies of those names.
func (v variant) policies(names []string) ([]sim.Policy, error) {
	var all []sim.Policy
	for _, name := range names {
		p, err := named(name)
		if err != nil {
			return nil, err
		}
		if name == "htas" && v.htas != nil {
			p = *v.htas
		}
		all = append(all, p)
	}
	return all, nil
}
