// Command planperf compares `supercargo plan` with the greedy algorithm and with
// Karpenter's scheduler: what their plans cost, how long they take and how much
// memory. Each runs in a process of its own, in turn, on the same files; every plan
// is checked by package plancheck before it counts. It prints JSON.
//
// What holds on other machines are prices, gaps and ratios.
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

// settings are the flags.
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

// Summary is what is printed.
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
