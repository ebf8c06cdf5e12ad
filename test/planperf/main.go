// Command planperf compares `supercargo plan` with the greedy algorithm and with Karpenter's scheduler: the
// cost of their plans, their time and their memory. Each runs in its own process, in turn, on the same files.
// Package plancheck checks every plan before it counts. The command prints JSON.
//
// Only prices, gaps and ratios apply to other machines.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// settings contains the flags.
type settings struct {
	supercargo, karpenter, data, only string
	rounds                            int
	patience                          time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.supercargo, "supercargo", "bin/supercargo", "supercargo")
	flag.StringVar(&s.karpenter, "karpenter", "bin/karpenter-peer", "the program of test/peers/karpenter")
	flag.StringVar(&s.data, "data", "test/data", "folder of catalogues")
	flag.StringVar(&s.only, "only", "", "run the workloads whose names contain this")
	flag.IntVar(&s.rounds, "rounds", 3, "how often to run each")
	flag.DurationVar(&s.patience, "patience", 5*time.Minute, "give up on a run after this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "planperf:", err)
		os.Exit(1)
	}
}

// Summary is the output.
type Summary struct {
	Workloads []*Workload `json:"workloads"`
	Bars      []Bar       `json:"bars"`
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "planperf")
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
