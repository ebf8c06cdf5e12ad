package sim

import (
	"math"
	"time"

	"supercargo.dev/supercargo/lab/bound"
	"supercargo.dev/supercargo/lab/scenario"
)

// LowerBound returns a lower bound, in micro-dollars, of the bill of the scenario with these pods
// under any policy that completes the batch pods that fit on some machine. docs/lower-bound.md
// derives it.
//
// Services do not count, because a policy may let them wait. Neither does the time up to the
// horizon, except in a fixed cluster, which is billed at least to the horizon. [ServedBound] is for
// policies that serve services.
func LowerBound(s *scenario.Scenario, pods []scenario.Pod) int64 {
	return bound.Cost(boundRun(s, pods)).MicroDollars
}

// ServedBound returns a lower bound, in micro-dollars, of the bill of the scenario with these pods
// under any policy that completes the batch pods and serves the services that fit on some machine:
// each service is on a machine from its arrival until the run ends or its lifetime, counted from
// its first start, is over, except for the time wait, averaged over these services. It is never
// below [LowerBound].
func ServedBound(s *scenario.Scenario, pods []scenario.Pod, wait time.Duration) int64 {
	run := boundRun(s, pods)
	run.End = s.Horizon // services without a lifetime run until then
	run.StartLag, run.LagFree = shortestLag(s.AcquisitionLag), s.BilledFrom == scenario.FromReady
	run.ServiceWait = wait
	return bound.Served(run)
}

// shortestLag returns the minimum of [scenario.Lag.Draw].
func shortestLag(l scenario.Lag) time.Duration {
	if l.SD == 0 {
		return l.Mean
	}
	if l.SD > (math.MaxInt64-time.Millisecond)/6 {
		return 0
	}
	return max(0, l.Mean-6*l.SD-time.Millisecond)
}

func boundRun(s *scenario.Scenario, pods []scenario.Pod) bound.Run {
	run := bound.Run{
		Fixed: !s.Autoscale, BillingPeriod: s.BillingPeriod,
		ReleaseLag: min(s.ReleaseLag, s.Horizon), // limited by the end of the run
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
		p := pods[i].Pod
		p.Runtime += pods[i].Lifetime
		run.Pods = append(run.Pods, p)
	}
	return run
}

func boundFlavor(f *scenario.Flavor) bound.Flavor {
	return bound.Flavor{Flavor: f.Flavor.Flavor, Speed: f.Speed}
}
