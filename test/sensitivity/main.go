// Command sensitivity varies, one at a time, the parameters that the HTAS paper leaves open. For each policy
// it prints the savings over default, in percent, and for how many minutes pods wait, with default last:
// means over ten seeds. The output is a Markdown table for docs/benchmarks.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

var (
	patterns = []string{"stable", "growing", "cycle", "on-off"}
	compared = []string{"coca", "stratus", "htas", "supercargo"}
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

func main() {
	dir := flag.String("scenarios", "test/scenarios", "folder of the htas-*.yaml scenarios")
	seeds := flag.Int("seeds", 10, "how many seeds, from 1 on")
	policies := flag.String("policies", strings.Join(compared, ","), "policies to compare with default; supercargo-10m is supercargo with scaling.maxWait: 10m")
	rows := flag.String("rows", "", "only rows whose names contain this")
	flag.Parse()
	compared = strings.Split(*policies, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	klog.SetLogger(logr.Discard())
	err := run(ctx, *dir, *rows, *seeds)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sensitivity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, rows string, seeds int) error {
	fmt.Printf("| | %s |\n|---|", strings.Join(patterns, " | "))
	fmt.Println(strings.Repeat("---|", len(patterns)))
	for _, v := range variants() {
		if v.htas != nil && !slices.Contains(compared, "htas") {
			continue // the row would repeat the first
		}
		if !strings.Contains(v.name, rows) {
			continue
		}
		fmt.Printf("| %s |", v.name)
		for _, pattern := range patterns {
			saved, err := v.saved(ctx, filepath.Join(dir, "htas-"+pattern+".yaml"), seeds)
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
func (v variant) saved(ctx context.Context, file string, seeds int) (string, error) {
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
	names := append([]string{"default"}, compared...)
	costs, waits := make([][]int64, len(names)), make([][]time.Duration, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		p, err := named(name)
		if err != nil {
			return "", err
		}
		if name == "htas" && v.htas != nil {
			p = *v.htas
		}
		costs[i], waits[i] = make([]int64, seeds), make([]time.Duration, seeds)
		for seed := range seeds {
			group.Go(func() error {
				pods, err := s.Arrivals(uint64(seed + 1))
				if err != nil {
					return err
				}
				r, err := sim.Run(ctx, sim.Input{Scenario: s, Pods: pods, Seed: uint64(seed + 1), Policy: p})
				if err != nil {
					return fmt.Errorf("%s with seed %d: %w", name, seed+1, err)
				}
				costs[i][seed], waits[i][seed] = r.CostMicroDollars, r.MeanWait()
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	saved, waited := make([]string, len(compared)), make([]string, len(names))
	for i := range compared {
		var sum float64
		for seed := range seeds {
			sum += 1 - float64(costs[i+1][seed])/float64(costs[0][seed])
		}
		saved[i] = fmt.Sprintf("%.0f", 100*sum/float64(seeds))
	}
	for i, at := 0, 1; i < len(names); i, at = i+1, (at+1)%len(names) {
		var sum time.Duration
		for _, wait := range waits[at] {
			sum += wait
		}
		waited[i] = fmt.Sprintf("%.1f", (sum / time.Duration(seeds)).Minutes())
	}
	return strings.Join(saved, " / ") + "; " + strings.Join(waited, " / "), nil
}
