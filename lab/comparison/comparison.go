// Package comparison runs several policies on the workloads of a scenario, one workload per seed,
// and reports the result of each policy next to the lower bounds.
package comparison

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// Plan is a set of simulations to run.
type Plan struct {
	scenario *scenario.Scenario
	policies []sim.Policy
	seed     uint64
	// workloads has the pods of each seed, beginning with seed.
	workloads [][]scenario.Pod
	// unnamed is the policy that runs only for the served bound, or nil.
	unnamed *sim.Policy
}

// waitsOf is the policy whose mean wait the served bound allows for services.
const waitsOf = "default"

// New draws repeat workloads of the scenario, with seed and the seeds after it. The reports compare
// every policy with the first.
func New(s *scenario.Scenario, policies []sim.Policy, seed uint64, repeat int) (*Plan, error) {
	p := &Plan{scenario: s, policies: policies, seed: seed}
	for i := range repeat {
		pods, err := s.Arrivals(seed + uint64(i))
		if err != nil {
			return nil, err
		}
		if err := sim.Validate(s, pods); err != nil {
			return nil, err
		}
		p.workloads = append(p.workloads, pods)
	}
	named := slices.ContainsFunc(policies, func(p sim.Policy) bool { return p.Name == waitsOf })
	if !named && s.Autoscale && slices.ContainsFunc(p.workloads, hasServices) {
		unnamed, err := policy.ByName(waitsOf)
		if err != nil {
			return nil, err
		}
		p.unnamed = &unnamed
	}
	return p, nil
}

func hasServices(pods []scenario.Pod) bool {
	return slices.ContainsFunc(pods, func(p scenario.Pod) bool { return p.Class == class.Service })
}

// all returns the policies to run: the named ones, then the unnamed one.
func (p *Plan) all() []sim.Policy {
	if p.unnamed == nil {
		return p.policies
	}
	return append(slices.Clip(p.policies), *p.unnamed)
}

// Runs returns the number of simulations of [Plan.Run].
func (p *Plan) Runs() int { return len(p.all()) * len(p.workloads) }

// Run is a finished simulation.
type Run struct {
	Seed   uint64
	Policy string
	// Wall is the wall-clock time of the simulation.
	Wall   time.Duration
	Result *sim.Result
}

// Result is the result of a plan.
type Result struct {
	// Runs are the runs of the named policies, ordered by seed and then by policy.
	Runs []Run

	plan *Plan
	// waits has, for each seed, the wait that the served bound allows for services.
	waits []time.Duration
}

// Run simulates every policy with every seed, GOMAXPROCS at a time. It calls progress concurrently
// with the completed fraction of a run, from 0 to 1.
func (p *Plan) Run(ctx context.Context, progress func(run int, part float64)) (*Result, error) {
	policies := p.all()
	runs := make([]Run, p.Runs())
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range runs {
		of, seed := policies[i%len(policies)], p.seed+uint64(i/len(policies))
		pods := p.workloads[i/len(policies)]
		group.Go(func() error {
			start := time.Now()
			result, err := sim.Run(ctx, sim.Input{
				Scenario: p.scenario, Pods: pods, Seed: seed, Policy: of,
				Progress: func(now sim.Progress) {
					if now.Total > 0 {
						progress(i, float64(now.Arrived+now.Done)/float64(2*now.Total))
					}
				},
			})
			if err != nil {
				return fmt.Errorf("simulate policy %s with seed %d: %w", of.Name, seed, err)
			}
			runs[i] = Run{Seed: seed, Policy: of.Name, Wall: time.Since(start), Result: result}
			progress(i, 1)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return p.result(runs), nil
}

// result keeps the runs of the named policies, and the waits that the served bound allows.
func (p *Plan) result(runs []Run) *Result {
	r := &Result{plan: p, waits: make([]time.Duration, len(p.workloads))}
	policies := len(p.all())
	for i, run := range runs {
		seed := i / policies
		if run.Policy == waitsOf && p.scenario.Autoscale && hasServices(p.workloads[seed]) {
			r.waits[seed] = run.Result.MeanWait()
		}
		if i%policies < len(p.policies) {
			r.Runs = append(r.Runs, run)
		}
	}
	return r
}
