package cli

import (
	"context"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/bound"
)

// planAlgorithm is a way to plan.
type planAlgorithm struct {
	name string
	// stages are ever better and slower planners; the last is the algorithm, the
	// others are for those who cannot wait for it.
	stages []func(planRequest) planner.Plan
}

// planAlgorithms are the known ones, the default first.
var planAlgorithms = []planAlgorithm{
	{"supercargo", []func(planRequest) planner.Plan{greedyPlan, mixPlan(1), mixPlan(0)}},
	{"greedy", []func(planRequest) planner.Plan{greedyPlan}},
}

func planAlgorithmNames() []string {
	var names []string
	for _, a := range planAlgorithms {
		names = append(names, a.name)
	}
	return names
}

// greedyPlan is algorithm 3 of the HTAS paper. All pods choose in the order of
// services: the order of batch pods is by runtime, which a price per hour does not
// depend on. There are no nodes, so that algorithm 4 has nothing to add.
func greedyPlan(r planRequest) planner.Plan {
	return planner.Greedy(r.pods, r.flavors, planner.Options{Order: planner.Services})
}

// mixPlan searches for the cheapest machines together, with so much effort; 0 is
// the usual one.
func mixPlan(effort int) func(planRequest) planner.Plan {
	return func(r planRequest) planner.Plan {
		return planner.Mix(r.pods, r.flavors, planner.MixOptions{Effort: effort})
	}
}

// planOutcome is a plan and what any plan must cost, in micro-dollars per hour.
type planOutcome struct {
	plan  planner.Plan
	bound int64
}

// within plans for at most so long, 0 meaning without limit, and returns the
// cheapest plan found until then; the first stage and the bound are waited for in
// any case. It fails when ctx ends. What is still running then goes on until the
// process ends.
func (a planAlgorithm) within(ctx context.Context, r planRequest, limit time.Duration) (planOutcome, error) {
	stages := a.stages
	var late <-chan time.Time
	if limit > 0 {
		late = time.After(limit)
	} else {
		stages = stages[len(stages)-1:]
	}
	bounds := make(chan int64, 1)
	plans := make(chan planner.Plan, len(stages))
	go func() {
		defer close(plans)
		for _, stage := range stages {
			plans <- stage(r)
		}
	}()
	go func() { bounds <- lowerBound(r) }()

	var best *planner.Plan
	for done := false; !done; {
		select {
		case <-ctx.Done():
			return planOutcome{}, ctx.Err()
		case p, more := <-plans:
			switch {
			case !more:
				done = true
			case best == nil || better(p, *best):
				best = &p
			}
		case <-late:
			late = nil
			limit = -1
		}
		done = done || best != nil && limit < 0
	}
	select {
	case <-ctx.Done():
		return planOutcome{}, ctx.Err()
	case b := <-bounds:
		return planOutcome{plan: *best, bound: b}, nil
	}
}

// better reports whether a is cheaper, or as cheap with fewer machines.
func better(a, b planner.Plan) bool {
	if a.MicroDollarsPerHour != b.MicroDollarsPerHour {
		return a.MicroDollarsPerHour < b.MicroDollarsPerHour
	}
	return len(a.Machines) < len(b.Machines)
}

// lowerBound is what the machines of any plan must cost, in micro-dollars per hour.
func lowerBound(r planRequest) int64 {
	pods := make([]bound.Pod, len(r.pods))
	for i, p := range r.pods {
		pods[i] = bound.Pod{Size: p.Size, Arch: p.Arch}
	}
	flavors := make([]bound.Flavor, len(r.flavors))
	for i, f := range r.flavors {
		flavors[i] = bound.Flavor{Size: f.Size, MaxPods: f.MaxPods, Arch: f.Arch, MicroDollarsPerHour: f.MicroDollarsPerHour}
	}
	least, _ := bound.PerHour(pods, flavors)
	return least
}
