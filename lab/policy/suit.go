package policy

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/moves"
)

// suiter periodically moves running pods to more suitable machines, as the descheduler does: with
// [moves.Better] and the profiles learned from probes.
type suiter struct {
	config   moves.TransferConfig
	machines moves.Machines
	interval time.Duration
	next     time.Time
	// rest decides about the machines; nil leaves them unchanged.
	rest sim.Controller
}

// suiting returns a controller that moves pods, with the energy weight h for pods that declare
// none, in addition to the controller rest if it is not nil.
func suiting(sc *scenario.Scenario, h float64, rest sim.Controller) sim.Controller {
	profiles, err := learned(sc)
	if err != nil || sc.Rescheduling.Interval == 0 { // the plugins, which need the profiles too, report the error
		return rest
	}
	types := map[string]string{}
	for i := range sc.Flavors {
		types[sc.Flavors[i].Name] = sc.Flavors[i].MachineType
	}
	return &suiter{
		rest: rest, interval: sc.Rescheduling.Interval, next: sim.Epoch.Add(sc.Rescheduling.Interval),
		config: moves.TransferConfig{
			Gain: sc.Rescheduling.Gain, PodResidence: sc.Rescheduling.Residence, Budget: moves.Budget{Pods: int(sc.Rescheduling.Pods)},
			Risk: -1, // no migration fails in the simulator
		},
		machines: moves.Machines{
			Profiles: profiles,
			Type:     func(n *cluster.Node) string { return types[n.Flavor] },
			Weight: func(p *cluster.Pod) float64 {
				if p.EnergyWeight != nil {
					return *p.EnergyWeight
				}
				return h
			},
		},
	}
}

// Decide implements sim.Controller.
func (s *suiter) Decide(now time.Time, state *cluster.State) cluster.Plan {
	var plan cluster.Plan
	if s.rest != nil {
		plan = s.rest.Decide(now, state)
	}
	if !now.Before(s.next) {
		s.next = now.Add(s.interval)
		s.move(now, state, &plan)
	}
	if wait := s.next.Sub(now); plan.Wake == 0 || wait < plan.Wake {
		plan.Wake = wait
	}
	return plan
}

// move adds moves to a plan, except from or to machines that it empties or releases.
func (s *suiter) move(now time.Time, state *cluster.State, plan *cluster.Plan) {
	s.machines.Now = now
	going := map[string]bool{}
	for i := range plan.Drains {
		going[plan.Drains[i].Node] = true
	}
	for i := range plan.Release {
		going[plan.Release[i].Node] = true
	}
	for _, t := range moves.Better(s.config, s.machines, state) {
		if going[t.From] || going[t.To] || targeted(plan.Drains, t.To) {
			continue
		}
		plan.Transfers = append(plan.Transfers, cluster.Transfer{Pod: t.Pod, From: t.From, To: t.To, Method: t.Method, Joules: t.Joules, Reason: t.Reason})
	}
}

// targeted reports whether a drain sends pods to the node, so that its room is reserved.
func targeted(drains []cluster.Drain, node string) bool {
	return slices.ContainsFunc(drains, func(d cluster.Drain) bool {
		return slices.ContainsFunc(d.Moves, func(m cluster.Move) bool { return m.Target == node })
	})
}
