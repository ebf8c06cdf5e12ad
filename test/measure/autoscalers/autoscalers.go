// Package autoscalers runs autoscalers on the same pods and compares the cost and the waiting times of pods:
// Supercargo's NodeFleet on cluster-api, and on NodeClaims that Karpenter launches, with its own scheduler, and the real
// Karpenter with its kwok provider and the stock scheduler. Each run has its own control plane, with a real API server and nodes simulated by
// kwok. The runs of a comparison alternate. The command prints a table to standard output, and writes all
// measurements as JSON to the file that --report names. It rewrites the file after every run.
//
// Only the ratios apply to other computers.
package autoscalers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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

// Command returns the subcommand that compares autoscalers.
func Command() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use: "autoscalers", Short: "Compare NodeFleet and the real Karpenter on the same pods, live", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&s.autoscaler, "autoscaler", "bin/autoscaler", "Supercargo's autoscaler")
	f.StringVar(&s.karpenter, "karpenter", "bin/karpenter", "Karpenter's operator with its kwok provider")
	f.StringVar(&s.scaledKarpenter, "scaled-karpenter", "bin/karpenter-scaled", "the same with its constant waits cut")
	f.StringVar(&s.karpenterSource, "karpenter-source", "", "folder of Karpenter's sources, for its definitions")
	f.StringVar(&s.scenarios, "scenarios", "test/scenarios", "folder of the simulator's loads")
	f.StringVar(&s.logs, "logs", "dist/autoscalers", "folder for the programs' logs")
	f.StringVar(&s.report, "report", "dist/autoscalers.json", "file for what was measured")
	f.StringSliceVar(&s.loads, "loads", loadNames(), "loads to run")
	f.StringSliceVar(&s.catalogues, "catalogues", []string{"8", "60"}, "how many flavors there are: 8, 60, all of a region")
	f.StringSliceVar(&s.paces, "paces", paceNames(), "scaled (waits cut as the demo cuts the fleet's), stretched (Karpenter as it comes, all else slower)")
	f.StringSliceVar(&s.contestants, "contestants", contestantNames(), "autoscalers to run")
	f.Float64Var(&s.stretch, "stretch", 3, "how much slower everything but Karpenter is with the pace stretched")
	f.IntVar(&s.rounds, "rounds", 3, "how often to run each")
	return cmd
}

// check returns an error for a value out of range and for an unknown name.
func (s *settings) check() error {
	if s.rounds < 1 || !(s.stretch >= 1) {
		return fmt.Errorf("--rounds %d, --stretch %v: want 1 or more of each", s.rounds, s.stretch)
	}
	for _, f := range []struct{ names, known []string }{
		{s.loads, loadNames()}, {s.catalogues, catalogueNames()}, {s.paces, paceNames()}, {s.contestants, contestantNames()},
	} {
		for _, name := range f.names {
			if !slices.Contains(f.known, name) {
				return fmt.Errorf("%q is none of %s", name, strings.Join(f.known, ", "))
			}
		}
	}
	return nil
}

// run runs every selected comparison.
func (s *settings) run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
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
	for _, loadName := range s.loads {
		load, err := readLoad(loadName, s.scenarios)
		if err != nil {
			return err
		}
		for _, catalogue := range s.catalogues {
			flavors, err := readCatalogue(catalogue)
			if err != nil {
				return err
			}
			for _, pace := range s.paces {
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
		for _, name := range s.contestants {
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
