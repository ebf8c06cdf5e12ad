package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// patterns are the loads of the HTAS paper, as in test/scenarios/htas-PATTERN.yaml.
var patterns = []string{"stable", "growing", "cycle", "on-off"}

// experiments are the flags of what runs the experiments of the HTAS paper.
type experiments struct {
	dir   string
	seeds int
}

func (e *experiments) flags(f *pflag.FlagSet) {
	f.StringVar(&e.dir, "scenarios", "test/scenarios", "folder of the htas-*.yaml scenarios")
	f.IntVar(&e.seeds, "seeds", 10, "how many seeds, from 1 on")
}

// check returns an error if there is no seed.
func (e *experiments) check() error {
	if e.seeds < 1 {
		return fmt.Errorf("--seeds is %d, want at least 1", e.seeds)
	}
	return nil
}

// simulate runs each policy with the seeds 1 to n, as many at a time as there are CPUs. The results are in the order
// of policies and seeds.
func simulate(ctx context.Context, s *scenario.Scenario, n int, policies ...sim.Policy) ([][]sim.Result, error) {
	all := make([][]sim.Result, len(policies))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range policies {
		all[i] = make([]sim.Result, n)
		for at := range n {
			group.Go(func() error {
				seed := uint64(at + 1)
				pods, err := s.Arrivals(seed)
				if err != nil {
					return err
				}
				r, err := sim.Run(ctx, sim.Input{Scenario: s, Pods: pods, Seed: seed, Policy: p})
				if err != nil {
					return fmt.Errorf("%s with seed %d: %w", p.Name, seed, err)
				}
				all[i][at] = *r
				return nil
			})
		}
	}
	return all, group.Wait()
}
