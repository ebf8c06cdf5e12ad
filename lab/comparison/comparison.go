// Package comparison runs several policies on the workloads of a scenario, one workload per seed,
// and reports the result of each policy next to the lower bounds.
package comparison

import (
	"context"
	"errors"
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

// Run is a simulation that has ended.
type Run struct {
	Seed   uint64
	Policy string
	// Wall is the wall-clock time of the simulation.
	Wall time.Duration
	// Result is nil if the simulation failed, and Err says why. Err is a [*Panic] if it panicked.
	Result *sim.Result
	Err    error
}

// Result is the result of a plan.
type Result struct {
	// Runs are the runs of the named policies, ordered by seed and then by policy.
	Runs []Run

	plan   *Plan
	bounds []bounds // of each seed
}

// Run simulates every policy with every seed, GOMAXPROCS at a time. It calls progress concurrently
// with the completed fraction of a run, from 0 to 1. A simulation that fails does not end the
// others: its [Run] has the error. The only error is that of ctx, when ctx ends.
func (p *Plan) Run(ctx context.Context, progress func(run int, part float64)) (*Result, error) {
	policies := p.all()
	runs := make([]Run, p.Runs())
	faults := make([]func() error, len(runs))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range runs {
		runs[i] = Run{Seed: p.seed + uint64(i/len(policies)), Policy: policies[i%len(policies)].Name}
		group.Go(func() error {
			start := time.Now()
			runs[i].Result, faults[i], runs[i].Err = guarded(ctx, func(ctx context.Context) (*sim.Result, error) {
				return sim.Run(ctx, sim.Input{
					Scenario: p.scenario, Pods: p.workloads[i/len(policies)], Seed: runs[i].Seed, Policy: policies[i%len(policies)],
					Progress: func(now sim.Progress) {
						if now.Total > 0 {
							progress(i, float64(now.Arrived+now.Done)/float64(2*now.Total))
						}
					},
				})
			})
			runs[i].Wall = time.Since(start)
			progress(i, 1)
			if ctx.Err() != nil && runs[i].Err != nil {
				return fmt.Errorf("simulate policy %s with seed %d: %w", runs[i].Policy, runs[i].Seed, runs[i].Err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range runs {
		if err := faults[i](); err != nil {
			runs[i].Err = err
		}
		if runs[i].Err != nil {
			runs[i].Result = nil
		}
	}
	return p.result(runs), nil
}

// result keeps the runs of the named policies, and calculates the bounds.
func (p *Plan) result(runs []Run) *Result {
	r := &Result{plan: p}
	for policies := len(p.all()); len(runs) > 0; runs = runs[policies:] {
		r.bounds = append(r.bounds, p.boundsOf(len(r.bounds), runs[:policies]))
		for _, run := range runs[:len(p.policies)] {
			if err := run.outcome(r.bounds[len(r.bounds)-1].Bounds).Check(); err != nil {
				run.Result, run.Err = nil, fmt.Errorf("the result cannot be shown: %w", err)
			}
			r.Runs = append(r.Runs, run)
		}
	}
	return r
}

// bounds are the bounds of a seed. A bound that is not known is 0, and err says why.
type bounds struct {
	sim.Bounds
	err error
}

// boundsOf calculates the bounds of a seed from the runs of all policies with it.
func (p *Plan) boundsOf(seed int, runs []Run) bounds {
	pods := p.workloads[seed]
	wait, waitErr := p.serviceWait(pods, runs)
	known, _, err := guarded(context.Background(), func(context.Context) (sim.Bounds, error) {
		if waitErr != nil {
			return sim.Bounds{Lower: sim.LowerBound(p.scenario, pods)}, nil
		}
		return sim.Bounds{Lower: sim.LowerBound(p.scenario, pods), Served: sim.ServedBound(p.scenario, pods, wait), ServiceWait: wait}, nil
	})
	if err != nil {
		return bounds{err: fmt.Errorf("the bounds are unknown with seed %d: %w", runs[0].Seed, err)}
	}
	return bounds{known, waitErr}
}

// serviceWait returns the wait that the served bound allows for services.
func (p *Plan) serviceWait(pods []scenario.Pod, runs []Run) (time.Duration, error) {
	at := slices.IndexFunc(runs, func(r Run) bool { return r.Policy == waitsOf })
	if at < 0 || !p.scenario.Autoscale || !hasServices(pods) {
		return 0, nil
	}
	if err := runs[at].Err; err != nil {
		const unknown = "the served bound is unknown with seed %d, because it depends on the waits under policy %s, which failed"
		if at < len(p.policies) { // its row has the reason
			return 0, fmt.Errorf(unknown, runs[at].Seed, waitsOf)
		}
		return 0, fmt.Errorf(unknown+": %w", runs[at].Seed, waitsOf, err)
	}
	return runs[at].Result.MeanWait(), nil
}

// Err returns the errors of all failed simulations, each with its policy and seed, and of bounds, or nil.
func (r *Result) Err() error {
	var errs []error
	for _, run := range r.Runs {
		if run.Err != nil {
			errs = append(errs, fmt.Errorf("policy %s failed with seed %d: %w", run.Policy, run.Seed, run.Err))
		}
	}
	for _, b := range r.bounds {
		if b.err != nil {
			errs = append(errs, b.err)
		}
	}
	return errors.Join(errs...)
}

// Stacks returns the stacks of the simulations that panicked.
func (r *Result) Stacks() []string {
	var stacks []string
	for _, run := range r.Runs {
		if p, is := errors.AsType[*Panic](run.Err); is {
			stacks = append(stacks, fmt.Sprintf("policy %s, seed %d: panic: %v\n%s", run.Policy, run.Seed, p.Value, p.Stack))
		}
	}
	return stacks
}
