//go:build browser

package browser

import (
	"fmt"
	"math"
	"math/rand/v2"

	"supercargo.dev/supercargo/lab/outcome"
)

// sample makes a report like that of a simulation: a day and a half with a daily wave of work, each policy
// packing a little tighter than the one before. Costs, machines and moves agree with each other, and one
// policy exceeds its limit early. The same arguments produce the same report.
func sample(scenario string, seed uint64, samples int, names ...string) outcome.Report {
	r := outcome.Report{Scenario: scenario, Seed: seed}
	for i, name := range names {
		r.Policies = append(r.Policies, samplePolicy(name, i, samples, rand.New(rand.NewPCG(seed, uint64(i)))))
	}
	bound := math.Inf(1)
	for _, p := range r.Policies {
		bound = min(bound, 0.93*p.CostDollars)
	}
	for i := range r.Policies {
		r.Policies[i].LowerBoundDollars = bound
	}
	return r
}

func samplePolicy(name string, rank, samples int, random *rand.Rand) outcome.Policy {
	const dollarsPerHour, watts = 0.384, 210
	slack := 1.55 - 0.45*float64(rank)/float64(rank+2)
	span := 36 * 3600.0
	if rank > 0 {
		samples -= samples * rank / 60 // better policies finish earlier
	}
	p := outcome.Policy{Name: name}
	p.Series.StepSeconds = span / float64(max(samples, 2))
	hours, cpuSum, memorySum, moves, noise := 0.0, 0.0, 0.0, 0, 0.0
	for i := range samples {
		at := float64(i) / float64(samples)
		noise = 0.9*noise + 0.1*random.NormFloat64()
		work := max(0, 42+26*math.Sin(3*math.Pi*at-0.8)+6*noise) * min(1, 12*at) * min(1, 20*(1-at))
		machines := int(math.Ceil(work*slack)) + 2
		cpu, memory := work/float64(machines), min(0.98, 0.8*work/float64(machines)+0.1)
		hours += float64(machines) * p.Series.StepSeconds / 3600
		if rank > 0 && random.IntN(9) < rank {
			moves++
		}
		s := &p.Series
		s.CostDollars = append(s.CostDollars, hours*dollarsPerHour)
		s.CPU = append(s.CPU, cpu)
		s.Memory = append(s.Memory, memory)
		s.Machines = append(s.Machines, machines)
		s.Pending = append(s.Pending, max(0, int(4*noise*float64(rank+1))))
		s.Moves = append(s.Moves, moves)
		cpuSum += cpu * float64(machines)
		memorySum += memory * float64(machines)
		p.Nodes.Peak = max(p.Nodes.Peak, machines)
	}
	machineSamples := max(1, hours*3600/p.Series.StepSeconds)
	p.CostDollars = hours * dollarsPerHour
	p.EnergyJoules = hours * 3600 * watts
	p.EndSeconds = float64(samples) * p.Series.StepSeconds
	p.MakespanSeconds = 0.97 * p.EndSeconds
	p.Utilization = outcome.Utilization{CPU: cpuSum / machineSamples, Memory: memorySum / machineSamples}
	p.Scheduling = outcome.Waits{Mean: 34 + 11*float64(rank), P50: 8, P95: 140 + 30*float64(rank), Max: 700}
	p.Nodes.Start, p.Nodes.Hours, p.Nodes.Added, p.Nodes.Removed = 2, hours, 3*p.Nodes.Peak, 3*p.Nodes.Peak+2
	p.Moves = outcome.Moves{Migrations: moves * 2 / 3, Evictions: moves - moves*2/3, LostWorkSeconds: 190 * float64(moves)}
	p.Pods = outcome.Pods{Submitted: 12480, Scheduled: 12480 - rank%2, Completed: 12466 - rank%2, Pending: rank % 2}
	if p.Pods.Pending > 0 {
		p.PendingReasons = map[string]int64{"no flavor is large enough": int64(p.Pods.Pending)}
	}
	p.Events = map[string]int64{"arrival": 12480, "start": int64(12480 + moves), "end": 12466, "machine bought": int64(p.Nodes.Added)}
	return p
}

// tenNames returns as many names as there are distinct line styles; some are hard to display.
func tenNames() []string {
	names := []string{"default", "packing", "packing + narrowing", "scheduler-with-a-very-long-name-that-nobody-would-type-twice/v1.2.3",
		`<b onmouseover="alert(1)">bold</b>`, "größte Mühe", "装箱"}
	for i := len(names); i < 10; i++ {
		names = append(names, fmt.Sprintf("policy-%d", i))
	}
	return names
}
