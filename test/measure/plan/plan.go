// Package plan compares `supercargo plan` with the greedy algorithm and with Karpenter's scheduler: the
// cost of their plans, their time and their memory. Each runs in its own process, in turn, on the same files.
// Package plancheck checks every plan before it counts. The result is JSON.
//
// Only prices, gaps and ratios apply to other machines.
package plan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// settings contains the flags.
type settings struct {
	supercargo, karpenter, data, only string
	rounds                            int
	patience                          time.Duration
}

// Command returns the subcommand that measures plans.
func Command() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use: "plan", Short: "Compare plans with those of greedy and of Karpenter's scheduler", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), s) },
	}
	f := cmd.Flags()
	f.StringVar(&s.supercargo, "supercargo", "bin/supercargo", "supercargo")
	f.StringVar(&s.karpenter, "karpenter", "bin/karpenter-peer", "the program of test/peers/karpenter")
	f.StringVar(&s.data, "data", "test/data", "folder of catalogues")
	f.StringVar(&s.only, "only", "", "run the workloads whose names contain this")
	f.IntVar(&s.rounds, "rounds", 3, "how often to run each")
	f.DurationVar(&s.patience, "patience", 5*time.Minute, "give up on a run after this")
	return cmd
}

// Summary is the output.
type Summary struct {
	Workloads []*Workload `json:"workloads"`
	Bars      []Bar       `json:"bars"`
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var summary Summary
	for _, spec := range append(slices.Clone(specs), familySpecs()...) {
		if !strings.Contains(spec.name, s.only) {
			continue
		}
		for _, seed := range spec.seeds {
			w, err := spec.write(dir, s.data, seed)
			if err != nil {
				return fmt.Errorf("write workload %s: %w", spec.name, err)
			}
			if err := w.measure(ctx, s); err != nil {
				return fmt.Errorf("workload %s with seed %d: %w", spec.name, seed, err)
			}
			summary.Workloads = append(summary.Workloads, w)
		}
	}
	summary.Bars = judge(summary.Workloads)
	return jsondoc.Write(os.Stdout, summary)
}
