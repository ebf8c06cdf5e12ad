// Package disruption compares the consolidation of a NodeFleet with Karpenter's own disruption, on the same clusters of
// half-empty nodes: the price an hour that each reaches within ten minutes, and the time of its decisions.
//
// Each has its own code, unchanged, and its own waits and time limits: the reconciler of the autoscaler against an API
// server in memory, and Karpenter's disruption controller and queue (test/peers/karpenter). Package halfempty has what
// they share: the cluster, the clock, and the world that refuses what could not happen.
package disruption

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/test/halfempty"
	"supercargo.dev/supercargo/test/measure/process"
)

// settings are the flags.
type settings struct {
	karpenter string
	nodes     []int
	flavors   int
	budgets   []string
	only      string
	seed      uint64
	under     conditions
}

// Command returns the subcommand that compares consolidation.
func Command() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use: "disruption", Short: "Compare the consolidation of a NodeFleet with Karpenter's disruption", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), s) },
	}
	f := cmd.Flags()
	f.StringVar(&s.karpenter, "karpenter", "bin/karpenter-peer", "the program of test/peers/karpenter")
	f.IntSliceVar(&s.nodes, "nodes", []int{300, 1000, 5000}, "numbers of nodes, with 20 pods each")
	f.IntVar(&s.flavors, "flavors", 757, "number of flavors, of those of AWS in us-east-1; at most 757")
	f.StringSliceVar(&s.budgets, "budgets", []string{"10%", "100%"}, "how many machines may be removed at a time: the budget of the NodePool, and maxUnavailable of the fleet")
	f.StringVar(&s.only, "only", "", "run only supercargo or karpenter")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the clusters")
	f.DurationVar(&s.under.lag, "lag", time.Minute, "the time from the order of a machine to its node")
	f.DurationVar(&s.under.last, "for", 10*time.Minute, "how long each run lasts on its clock")
	f.BoolVar(&s.under.processor, "processor-time", false, "let the clock of each have the processor time of its process in place of the time by the clock, where other programs compute too")
	return cmd
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all := []*halfempty.Figures{}
	for _, nodes := range s.nodes {
		c, err := halfempty.Generate(nodes, s.flavors, s.seed)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.json", nodes))
		if err := write(c, file); err != nil {
			return err
		}
		for _, budget := range s.budgets {
			s.under.budget = budget
			both, err := compare(ctx, s, c, file)
			if err != nil {
				return fmt.Errorf("%d nodes, budget %s: %w", nodes, budget, err)
			}
			all = append(all, both...)
		}
	}
	fmt.Fprintln(os.Stderr, strings.Join(halfempty.Table(all), "\n"))
	return jsondoc.Write(os.Stdout, all)
}

func write(c *halfempty.Cluster, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	return errors.Join(c.Write(buffered), buffered.Flush(), f.Close())
}

// compare runs both on a cluster, one after the other.
func compare(ctx context.Context, s settings, c *halfempty.Cluster, file string) (all []*halfempty.Figures, err error) {
	for _, one := range []struct {
		name string
		run  func() (*halfempty.Figures, error)
	}{
		{"supercargo", func() (*halfempty.Figures, error) { return consolidate(ctx, c, s.under) }},
		{"karpenter", func() (*halfempty.Figures, error) { return karpenter(ctx, s, file) }},
	} {
		if s.only != "" && s.only != one.name {
			continue
		}
		f, err := one.run()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		fmt.Fprintln(os.Stderr, f)
		all = append(all, f)
		debug.FreeOSMemory() // the next run begins without the garbage of this one
	}
	return all, nil
}

// karpenter runs Karpenter's disruption in its own process.
func karpenter(ctx context.Context, s settings, file string) (*halfempty.Figures, error) {
	args := []string{"--disrupt", file, "--budget", s.under.budget, "--lag", s.under.lag.String(), "--for", s.under.last.String(), fmt.Sprintf("--processor-time=%v", s.under.processor)}
	out, _, err := process.Output(ctx, s.karpenter, args...)
	if err != nil {
		return nil, err
	}
	f := &halfempty.Figures{}
	return f, json.Unmarshal(out, f)
}
