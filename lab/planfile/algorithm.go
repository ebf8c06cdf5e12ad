package planfile

import (
	"fmt"

	"supercargo.dev/supercargo/autoscaler/planner"
)

// Algorithm is a way to plan.
type Algorithm struct {
	Name string
	// Plan returns the best plan it has when stop says so, or when it is done.
	Plan func(r *Request, stop func() bool) Outcome
	// Refuses says why it cannot plan for these pods, or nil if it can.
	Refuses func(r *Request) error
}

// Outcome is a plan and what any plan must cost, in micro-dollars per hour.
type Outcome struct {
	Plan  planner.Plan
	Bound int64
}

// Algorithms are the known ones, the default first.
func Algorithms() []Algorithm {
	return []Algorithm{
		{"supercargo", planSupercargo, func(*Request) error { return nil }},
		{"greedy", planGreedy, refusedByGreedy},
	}
}

func planSupercargo(r *Request, stop func() bool) Outcome {
	result := planner.Supercargo(planner.Request{Pods: r.pods, Flavors: r.flavors, Stop: stop})
	return Outcome{result.Plan, result.LowerBoundMicroDollarsPerHour}
}

// planGreedy is algorithm 3 of the HTAS paper. All pods choose in the order of
// services: the order of batch pods is by runtime, which a price per hour does not
// depend on. There are no nodes, so that algorithm 4 has nothing to add. It is too
// quick to be stopped.
func planGreedy(r *Request, _ func() bool) Outcome {
	plan := planner.Greedy(r.pods, r.flavors, planner.Options{Order: planner.Services})
	least, _ := planner.LowerBound(r.pods, r.flavors)
	return Outcome{plan, least}
}

// refusedByGreedy names a pod that demands more than room: the paper knows pods of
// no other kind.
func refusedByGreedy(r *Request) error {
	for _, p := range r.pods {
		if p.Demands == nil {
			continue
		}
		reason := "looks at other pods"
		if p.Demands.Plain() {
			reason = ""
			for i := range r.flavors {
				if reason == "" {
					reason = p.Demands.Admits(r.flavors[i].Host)
				}
			}
		}
		if reason != "" {
			return fmt.Errorf("knows of no demands but room, and pod %s has others (%s): want supercargo", p.Name, reason)
		}
	}
	return nil
}
