package cli

import (
	"context"
	"fmt"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
)

// planAlgorithm is a way to plan.
type planAlgorithm struct {
	name string
	// plan returns the best plan it has when stop says so, or when it is done.
	plan func(r *planRequest, stop func() bool) planOutcome
	// refuses says why it cannot plan for these pods, or nothing if it can.
	refuses func(r *planRequest) error
}

// planOutcome is a plan and what any plan must cost, in micro-dollars per hour.
type planOutcome struct {
	plan  planner.Plan
	bound int64
}

// planAlgorithms are the known ones, the default first.
var planAlgorithms = []planAlgorithm{
	{"supercargo", planSupercargo, func(*planRequest) error { return nil }},
	{"greedy", planGreedy, refusedByGreedy},
}

func planAlgorithmNames() []string {
	var names []string
	for _, a := range planAlgorithms {
		names = append(names, a.name)
	}
	return names
}

func planSupercargo(r *planRequest, stop func() bool) planOutcome {
	result := planner.Supercargo(planner.Request{Pods: r.pods, Flavors: r.flavors, Stop: stop})
	return planOutcome{result.Plan, result.LowerBoundMicroDollarsPerHour}
}

// planGreedy is algorithm 3 of the HTAS paper. All pods choose in the order of
// services: the order of batch pods is by runtime, which a price per hour does not
// depend on. There are no nodes, so that algorithm 4 has nothing to add. It is too
// quick to be stopped.
func planGreedy(r *planRequest, _ func() bool) planOutcome {
	plan := planner.Greedy(r.pods, r.flavors, planner.Options{Order: planner.Services})
	least, _ := planner.LowerBound(r.pods, r.flavors)
	return planOutcome{plan, least}
}

// refusedByGreedy names a pod that demands more than room: the paper knows pods of
// no other kind.
func refusedByGreedy(r *planRequest) error {
	for _, p := range r.pods {
		if p.Constraints == nil {
			continue
		}
		reason := "looks at other pods"
		if p.Constraints.Plain() {
			reason = ""
			for i := range r.flavors {
				if reason == "" {
					reason = p.Constraints.Admits(r.flavors[i].Host)
				}
			}
		}
		if reason != "" {
			return fmt.Errorf("--algorithm greedy: knows of no demands but room, and pod %s has others (%s): want supercargo", p.Name, reason)
		}
	}
	return nil
}

// within plans for about so long, 0 meaning without limit. It fails when ctx ends;
// what is still running then goes on until the process ends.
func (a planAlgorithm) within(ctx context.Context, r *planRequest, limit time.Duration) (planOutcome, error) {
	start := time.Now()
	stop := func() bool { return ctx.Err() != nil || limit > 0 && time.Since(start) >= limit }
	done := make(chan planOutcome, 1)
	go func() { done <- a.plan(r, stop) }()
	select {
	case <-ctx.Done():
		return planOutcome{}, ctx.Err()
	case o := <-done:
		return o, ctx.Err()
	}
}
