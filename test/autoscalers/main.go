// Command autoscalers runs autoscalers on the same pods and compares the cost and the waiting times of pods:
// Supercargo's NodeFleet on cluster-api with its own scheduler, and the real Karpenter with its kwok provider
// and the stock scheduler. Each run has its own control plane, with a real API server and nodes simulated by
// kwok. The runs of a comparison alternate. The command prints a table to standard output, and writes all
// measurements as JSON to the file that -report names. It rewrites the file after every run.
//
// Only the ratios apply to other computers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// settings contains the flags.
type settings struct {
	autoscaler, karpenter, scaledKarpenter string // programs
	karpenterSource                        string // folder
	scenarios, logs, report                string

	loads, catalogues, paces, contestants []string
	stretch                               float64
	rounds                                int
}

func main() {
	var s settings
	flag.StringVar(&s.autoscaler, "autoscaler", "bin/autoscaler", "Supercargo's autoscaler")
	flag.StringVar(&s.karpenter, "karpenter", "bin/karpenter", "Karpenter's operator with its kwok provider")
	flag.StringVar(&s.scaledKarpenter, "scaled-karpenter", "bin/karpenter-scaled", "the same with its constant waits cut")
	flag.StringVar(&s.karpenterSource, "karpenter-source", "", "folder of Karpenter's sources, for its definitions")
	flag.StringVar(&s.scenarios, "scenarios", "test/scenarios", "folder of the simulator's loads")
	flag.StringVar(&s.logs, "logs", "dist/autoscalers", "folder for the programs' logs")
	flag.StringVar(&s.report, "report", "dist/autoscalers.json", "file for what was measured")
	flag.Func("loads", "loads to run, by commas: "+strings.Join(loadNames(), ", ")+" (default: all)", list(&s.loads, loadNames()))
	flag.Func("catalogues", "how many flavors there are, by commas: 8, 60, all of a region (default: 8,60)", list(&s.catalogues, catalogueNames()))
	flag.Func("paces", "scaled (waits cut as the demo cuts the fleet's), stretched (Karpenter as it comes, all else slower), by commas (default: both)", list(&s.paces, paceNames()))
	flag.Func("contestants", "by commas: "+strings.Join(contestantNames(), ", ")+" (default: all)", list(&s.contestants, contestantNames()))
	flag.Float64Var(&s.stretch, "stretch", 3, "how much slower everything but Karpenter is with the pace stretched")
	flag.IntVar(&s.rounds, "rounds", 3, "how often to run each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "autoscalers:", err)
		os.Exit(1)
	}
}

// list parses the names in a flag, and rejects unknown ones.
func list(names *[]string, known []string) func(string) error {
	return func(text string) error {
		*names = strings.Split(text, ",")
		for _, name := range *names {
			if !slices.Contains(known, name) {
				return fmt.Errorf("%q is none of %s", name, strings.Join(known, ", "))
			}
		}
		return nil
	}
}

// or returns the names, or all if there are none.
func or(names, all []string) []string {
	if len(names) == 0 {
		return all
	}
	return names
}

// run runs every selected comparison.
func (s *settings) run(ctx context.Context) error {
	if s.rounds < 1 || !(s.stretch >= 1) {
		return fmt.Errorf("-rounds %d, -stretch %v: want 1 or more of each", s.rounds, s.stretch)
	}
	for _, file := range []*string{&s.autoscaler, &s.karpenter, &s.scaledKarpenter, &s.logs} {
		path, err := filepath.Abs(*file)
		if err != nil {
			return err
		}
		*file = path
	}
	if err := os.MkdirAll(s.logs, 0o755); err != nil {
		return err
	}
	summary := Summary{}
	for _, loadName := range or(s.loads, loadNames()) {
		load, err := readLoad(loadName, s.scenarios)
		if err != nil {
			return err
		}
		for _, catalogue := range or(s.catalogues, []string{"8", "60"}) {
			flavors, err := readCatalogue(catalogue)
			if err != nil {
				return err
			}
			for _, pace := range or(s.paces, paceNames()) {
				w := s.world(load, flavors, pace)
				if err := s.compare(ctx, w, &summary); err != nil {
					return fmt.Errorf("load %s, %d flavors, %s: %w", load.name, len(flavors), pace, err)
				}
			}
		}
	}
	return summary.writeTable(os.Stdout)
}

// compare runs the contestants in turn.
func (s *settings) compare(ctx context.Context, w *world, summary *Summary) error {
	c := &Comparison{Load: w.load.name, Flavors: len(w.flavors), Pace: w.pace, Stretch: w.stretch, LagSeconds: w.lag.Seconds()}
	summary.Comparisons = append(summary.Comparisons, c)
	for round := range s.rounds {
		for _, name := range or(s.contestants, contestantNames()) {
			fmt.Fprintf(os.Stderr, "%s, %d flavors, %s, round %d of %d: %s\n", c.Load, c.Flavors, c.Pace, round+1, s.rounds, name)
			r, err := s.once(ctx, w, name, round+1)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(os.Stderr, "  $%.4f, %d machines, start in %.2f s and end in %.2f s, bound in %.2f s, 95 %% in %.2f s, %d never, %d restarted\n",
				r.Dollars, r.Machines, r.StartSeconds, r.EndSeconds, r.BindMeanSeconds, r.BindP95Seconds, r.PodsNeverBound, r.PodsRestarted)
			c.Runs = append(c.Runs, r)
			c.average()
			if err := summary.writeFile(s.report); err != nil {
				return err
			}
		}
	}
	return nil
}
