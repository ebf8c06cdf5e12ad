package replicadecide

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/internal/text/plural"
)

const (
	// stuckFactor is how many times longer than the learned start-up time, with two standard deviations, a pod that will
	// be Ready may take. Its replacement costs little if it becomes Ready after all.
	stuckFactor = 3
	// leastStuck is the shortest time after which a pod counts as stuck, and unknownStuck that without a learned time.
	leastStuck, unknownStuck = time.Minute, 10 * time.Minute
	// stuckShare bounds the replaced pods to a share of the Ready ones. If replacements do not become Ready either, more
	// of them would not help.
	stuckShare = 4
)

// StuckAfter returns how long a pod may not be Ready, since its creation or since it was Ready last, before it counts as
// [Seen.Stuck]. startUp is nil if no start was observed.
func StuckAfter(startUp *v1alpha1.LearnedTime) time.Duration {
	if startUp == nil {
		return unknownStuck
	}
	return max(leastStuck, stuckFactor*(startUp.Mean.Duration+2*startUp.Deviation.Duration))
}

// serving is the part of a target that the law sees: without pods that are not expected to serve. Otherwise the law would
// wait for them: it would count them as capacity that is about to come, and learn nothing, because a law learns only
// while all replicas serve.
type serving struct {
	// from is the number of replicas before the evaluation, and lost is how many of them the law does not see.
	from, lost int
	// replaced is how many of the lost ones the target gets in addition to those that the law wants: at most a
	// stuckShare of the Ready ones, rounded up, and none of those without a node, because others would not get one either.
	replaced int
}

// servingOf returns what the law sees of from replicas.
func servingOf(s Seen, from int) serving {
	lost := max(0, min(s.Stuck+s.Unplaced, s.Spec-s.Ready, from-1))
	return serving{from: from, lost: lost, replaced: min(s.Stuck, lost, (s.Ready+stuckShare-1)/stuckShare)}
}

// observe hides the lost replicas from the law.
func (v serving) observe(o law.Observation) law.Observation {
	o.Desired -= v.lost
	o.Spec -= v.lost
	return o
}

// decision turns the decision of the law, which is about replicas that serve, into one about the target. If the law
// keeps the number, the target keeps its number too. A scale-out never lowers it, and a scale-in never raises it.
func (v serving) decision(l law.Limits, d law.Decision) law.Decision {
	if v.lost == 0 {
		return d
	}
	keeps := v.from - v.lost
	n := d.Replicas + v.replaced
	switch {
	case d.Held, d.Replicas == l.Clamp(keeps):
		n = v.from
	case d.Replicas > keeps:
		n = max(n, v.from)
	default:
		n = min(n, v.from)
	}
	d.Replicas = l.Clamp(n)
	if d.Replicas != v.from && v.replaced > 0 {
		d.Reasons = append(d.Reasons, fmt.Sprintf("%s in place of pods that do not become Ready", plural.Count(v.replaced, "replica")))
	}
	return d
}
