package baseline

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/moves"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// underUsed is the share of its capacity below which a machine is under-used (HTAS,
// table 6, and the default of cluster-autoscaler).
const underUsed = 0.5

// queueEmpty is for how long no batch pod may have waited before a machine is emptied
// (HTAS, section 4).
const queueEmpty = 5 * time.Minute

// controller asks a function.
type controller func(now time.Time, s *cluster.State) cluster.Plan

// Decide implements sim.Controller.
func (c controller) Decide(now time.Time, s *cluster.State) cluster.Plan { return c(now, s) }

// ClusterAutoscaler is cluster-autoscaler on one node group, with its defaults:
// nodes whose greater share of requests is under a half for 10 min go, those with pods
// one a round, unless a machine was bought less than 10 min ago. One loop is a
// scaling interval (HTAS, table 6).
func ClusterAutoscaler(sc *scenario.Scenario) sim.Controller {
	planner := moves.NewPlanner(moves.Config{
		Threshold: underUsed, Measure: moves.Dominant, After: 10 * time.Minute, Method: cluster.Evict, MoveServices: true, Limit: 1,
	})
	return rounds(sc, planner, 10*time.Minute)
}

// COCA is COCA as HTAS describes it (section 6): the same autoscaler, and in every
// round in which nothing waits it compacts the cluster by eviction as far as it can.
func COCA(sc *scenario.Scenario) sim.Controller {
	planner := moves.NewPlanner(moves.Config{
		Threshold: underUsed, Method: cluster.Evict, MoveServices: true, AnyPending: true,
	})
	return rounds(sc, planner, 0)
}

// rounds buys and empties at scaling intervals only, and empties nothing in a round
// with a purchase nor for some time after it.
func rounds(sc *scenario.Scenario, planner *moves.Planner, quiet time.Duration) sim.Controller {
	var bought time.Time
	return controller(func(now time.Time, s *cluster.State) cluster.Plan {
		if !s.Scaling {
			return cluster.Plan{Wake: untilRound(now, s)}
		}
		plan := planner.Plan(now, s)
		plan.Buy = Homogeneous(s, sc.HomogeneousFlavor)
		if len(plan.Buy) > 0 {
			bought = now
		}
		if len(plan.Buy) > 0 || now.Sub(bought) < quiet {
			plan.Drains, plan.Release = nil, nil
		}
		plan.Wake = s.ScalingInterval
		return plan
	})
}

// untilRound is how long it is until the next round of buying: rounds are at multiples
// of the scaling interval.
func untilRound(now time.Time, s *cluster.State) time.Duration {
	since := now.Sub(sim.Epoch)
	return s.ScalingInterval - since%s.ScalingInterval
}

// Stratus buys by the score of HTAS for all pods together, and moves batch pods off
// under-used machines, if need be to a cheaper one bought for them; services stay.
func Stratus(sc *scenario.Scenario) sim.Controller {
	config := rescheduling(sc)
	config.Replace = true
	planner := moves.NewPlanner(config)
	return controller(func(now time.Time, s *cluster.State) cluster.Plan {
		plan := planner.Plan(now, s)
		plan.Buy = Mixed(s)
		return limited(plan, s)
	})
}

// HTAS follows the paper: groups for batch pods and services, algorithms 3 and 4
// every scaling interval, algorithm 5 at every scheduling interval.
func HTAS(sc *scenario.Scenario) sim.Controller { return htasWith(rescheduling(sc)) }

// HTASWith is HTAS with other times than ours where the paper leaves them open: for how
// long a machine must have been under-used, and for how long no batch pod may have
// waited, before it is emptied.
func HTASWith(underUsedFor, queueEmpty time.Duration) func(*scenario.Scenario) sim.Controller {
	return func(sc *scenario.Scenario) sim.Controller {
		config := rescheduling(sc)
		config.After, config.QueueEmpty = underUsedFor, queueEmpty
		return htasWith(config)
	}
}

// HTASMoving is HTAS with pods that leave emptied machines by another method. By
// [cluster.Wait], none is moved.
func HTASMoving(m cluster.Method) func(*scenario.Scenario) sim.Controller {
	return func(sc *scenario.Scenario) sim.Controller {
		config := rescheduling(sc)
		config.Method = m
		return htasWith(config)
	}
}

func htasWith(config moves.Config) sim.Controller {
	planner := moves.NewPlanner(config)
	return controller(func(now time.Time, s *cluster.State) cluster.Plan {
		plan := planner.Plan(now, s)
		plan.Buy = Groups(s)
		return plan
	})
}

// rescheduling is HTAS's. For how long a machine must have been under-used is
// open in the paper: a billing period is the least time for which giving it back can
// pay.
func rescheduling(sc *scenario.Scenario) moves.Config {
	return moves.Config{Threshold: underUsed, After: sc.BillingPeriod, QueueEmpty: queueEmpty, Cycle: sc.ScalingInterval}
}

// limited leaves out replacements for which purchases leave no room under the limit.
func limited(plan cluster.Plan, s *cluster.State) cluster.Plan {
	room := s.MaxNodes - len(s.Nodes) - len(plan.Buy)
	plan.Drains = slices.DeleteFunc(plan.Drains, func(d cluster.Drain) bool {
		if d.Replacement == nil {
			return false
		}
		room--
		return room < 0
	})
	return plan
}
