package baseline

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/moves"
)

// underUsed is the share of its capacity below which a machine is under-used (HTAS,
// table 6, and the default of cluster-autoscaler).
const underUsed = 0.5

// queueEmpty is how long no batch pod may have waited before a machine is emptied (HTAS, section
// 4).
const queueEmpty = 5 * time.Minute

// controller adapts a function to sim.Controller.
type controller func(now time.Time, s *cluster.State) cluster.Plan

// Decide implements sim.Controller.
func (c controller) Decide(now time.Time, s *cluster.State) cluster.Plan { return c(now, s) }

// ClusterAutoscaler is cluster-autoscaler on one node group with its defaults. It removes nodes
// whose dominant share of requests has been under one half for 10 min, at most one node with pods
// per round, unless a machine was bought less than 10 min ago. One loop is one scaling interval
// (HTAS, table 6).
func ClusterAutoscaler(sc *scenario.Scenario) sim.Controller {
	planner := moves.NewPlanner(moves.DrainConfig{
		Threshold: underUsed, Measure: moves.Dominant, After: 10 * time.Minute, Method: cluster.Evict, MoveServices: true, Limit: 1,
	})
	return rounds(sc, planner, 10*time.Minute)
}

// COCA is COCA as HTAS describes it (section 6): the same autoscaler, which also compacts the
// cluster by eviction as far as possible in every round without pending pods.
func COCA(sc *scenario.Scenario) sim.Controller {
	planner := moves.NewPlanner(moves.DrainConfig{
		Threshold: underUsed, Method: cluster.Evict, MoveServices: true, AnyPending: true,
	})
	return rounds(sc, planner, 0)
}

// rounds buys and empties machines only at scaling intervals. It empties nothing in a round with a
// purchase, nor for the time quiet after it.
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

// untilRound returns the time until the next purchase round. Rounds are at multiples of the scaling
// interval.
func untilRound(now time.Time, s *cluster.State) time.Duration {
	since := now.Sub(sim.Epoch)
	return s.ScalingInterval - since%s.ScalingInterval
}

// Stratus buys by the score of HTAS for all pods together. It moves batch pods off under-used
// machines, if necessary to a cheaper machine bought for them. Services stay.
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

// HTAS follows the paper: separate groups for batch pods and services, algorithms 3 and 4 at every
// scaling interval, algorithm 5 at every scheduling interval.
func HTAS(sc *scenario.Scenario) sim.Controller { return htasWith(rescheduling(sc)) }

// HTASWith is HTAS with other values for two times that the paper leaves open: how long a machine
// must have been under-used, and how long no batch pod may have waited, before the machine is
// emptied.
func HTASWith(underUsedFor, queueEmpty time.Duration) func(*scenario.Scenario) sim.Controller {
	return func(sc *scenario.Scenario) sim.Controller {
		config := rescheduling(sc)
		config.After, config.QueueEmpty = underUsedFor, queueEmpty
		return htasWith(config)
	}
}

// HTASMoving is HTAS with another method of moving pods off emptied machines. With [cluster.Wait],
// no pod is moved.
func HTASMoving(m cluster.Method) func(*scenario.Scenario) sim.Controller {
	return func(sc *scenario.Scenario) sim.Controller {
		config := rescheduling(sc)
		config.Method = m
		return htasWith(config)
	}
}

func htasWith(config moves.DrainConfig) sim.Controller {
	planner := moves.NewPlanner(config)
	return controller(func(now time.Time, s *cluster.State) cluster.Plan {
		plan := planner.Plan(now, s)
		plan.Buy = Groups(s)
		return plan
	})
}

// rescheduling returns the configuration of HTAS. The paper does not say how long a machine must
// have been under-used. A billing period is the shortest time for which releasing the machine can
// pay.
func rescheduling(sc *scenario.Scenario) moves.DrainConfig {
	return moves.DrainConfig{Threshold: underUsed, After: sc.BillingPeriod, QueueEmpty: queueEmpty, Cycle: sc.ScalingInterval}
}

// limited drops replacements that exceed the node limit after the purchases.
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
