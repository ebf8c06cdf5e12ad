package sim

import (
	"supercargo.dev/supercargo/internal/bound"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/scenario"
)

// LowerBound returns a lower bound, in micro-dollars, of the bill of the scenario
// with these pods under any policy that completes the batch pods which some
// machine can hold. docs/lower-bound.md derives it.
//
// Services count nothing: a policy may let them wait. So does the time up to the
// horizon, except in a fixed cluster, which is billed to the horizon at least.
func LowerBound(s *scenario.Scenario, pods []scenario.Pod) int64 {
	run := bound.Run{
		Fixed: !s.Autoscale, BillingPeriod: s.BillingPeriod,
		ReleaseLag: min(s.ReleaseLag, s.Horizon), // the end of the run cuts it
	}
	for i := range s.Flavors {
		run.Flavors = append(run.Flavors, boundFlavor(&s.Flavors[i]))
	}
	for _, n := range s.Nodes {
		for i := range s.Flavors {
			if s.Flavors[i].Name == n.Flavor {
				run.Machines = append(run.Machines, bound.Machines{Flavor: boundFlavor(&s.Flavors[i]), Count: n.Count})
			}
		}
	}
	if run.Fixed {
		run.End = s.Horizon
	}
	for i := range pods {
		p := &pods[i]
		run.Pods = append(run.Pods, bound.Pod{
			Size: p.Size, Arch: p.Arch, Service: p.Class == class.Service, Arrival: p.Arrival, Runtime: p.Runtime + p.Lifetime,
		})
	}
	return bound.Cost(run).MicroDollars
}

func boundFlavor(f *scenario.Flavor) bound.Flavor {
	return bound.Flavor{
		Size: f.Size(), MaxPods: f.MaxPods, Arch: f.Arch, MicroDollarsPerHour: f.MicroDollarsPerHour, Speed: f.Speed,
	}
}
