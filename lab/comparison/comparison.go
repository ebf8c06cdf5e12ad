// Package comparison runs several policies on the workloads of a scenario, one workload for each
// seed, and tells what each policy came to beside what any must pay at least.
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

// Plan is what is to be run.
type Plan struct {
	scenario *scenario.Scenario
	policies []sim.Policy
	seed     uint64
	// workloads are the pods of seed and those after it.
	workloads [][]scenario.Pod
	// unnamed is the policy that is run for the served bound alone; nil if there is none.
	unnamed *sim.Policy
}

// waitsOf is the policy whose mean wait the served bound allows services.
const waitsOf = "default"

// New draws the workloads of a scenario by the seed and those after it, repeat of them. The
// policies are compared with the first.
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

// all are the policies that are run: those named, and last the unnamed one.
func (p *Plan) all() []sim.Policy {
	if p.unnamed == nil {
		return p.policies
	}
	return append(slices.Clip(p.policies), *p.unnamed)
}

// Runs is how many simulations [Plan.Run] makes.
func (p *Plan) Runs() int { return len(p.all()) * len(p.workloads) }

// Run is one simulation that has ended.
type Run struct {
	Seed   uint64
	Policy string
	// Wall is how long the simulation took.
	Wall   time.Duration
	Result *sim.Result
}

// Result is what a plan came to.
type Result struct {
	// Runs are those of the policies that were asked for, in the order of the seeds and then of
	// the policies.
	Runs []Run

	plan *Plan
	// waits are how long the served bound lets services wait, with each seed.
	waits []time.Duration
}

// Run simulates every policy with every seed, as many at a time as there are processors.
// progress is told, concurrently, which part of a run from 0 to 1 is done.
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

// result keeps the runs that were asked for, and of the others the waits that the served bound
// allows.
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
