package planfile

import (
	"fmt"

	"supercargo.dev/supercargo/autoscaler/purchase"
)

// Algorithm is a planning algorithm.
type Algorithm struct {
	Name string
	// Plan returns its best plan when it is done or stop returns true.
	Plan func(r *Request, stop func() bool) Outcome
	// Refuses returns the reason why it cannot plan for these pods, or nil.
	Refuses func(r *Request) error
}

// Outcome is a plan and a lower bound for any plan, in micro-dollars per hour.
type Outcome struct {
	Plan  purchase.Plan
	Bound int64
}

// Algorithms returns the known algorithms, the default first.
func Algorithms() []Algorithm {
	return []Algorithm{
		{"supercargo", planSupercargo, func(*Request) error { return nil }},
		{"greedy", planGreedy, refusedByGreedy},
	}
}

func planSupercargo(r *Request, stop func() bool) Outcome {
	result := purchase.Supercargo(purchase.Request{Pods: r.pods, Flavors: r.flavors, Stop: stop})
	return Outcome{result.Plan, result.LowerBoundMicroDollarsPerHour}
}

// planGreedy is algorithm 3 of the HTAS paper. All pods choose in the order of services, because
// batch pods are ordered by runtime, on which a price per hour does not depend. There are no nodes,
// so algorithm 4 has nothing to add. It is too fast to need stop.
func planGreedy(r *Request, _ func() bool) Outcome {
	plan := purchase.Greedy(r.pods, r.flavors, purchase.GreedyOptions{Order: purchase.Services})
	least, _ := purchase.LowerBound(r.pods, r.flavors)
	return Outcome{plan, least}
}

// refusedByGreedy returns an error that names a pod with constraints other than room: the paper has
// no such pods.
func refusedByGreedy(r *Request) error {
	for _, p := range r.pods {
		if p.Demands == nil {
			continue
		}
		reason := "depends on other pods"
		if p.Demands.Plain() {
			reason = ""
			for i := range r.flavors {
				if reason == "" {
					reason = p.Demands.Admits(r.flavors[i].Host)
				}
			}
		}
		if reason != "" {
			return fmt.Errorf("supports only pods without constraints, and pod %s has constraints (%s): use supercargo", p.Name, reason)
		}
	}
	return nil
}
