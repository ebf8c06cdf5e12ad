// Package pace scrapes targets as often as ReplicaPolicies read metrics from them.
//
// The labels of the series that a policy's queries read identify the targets they were
// scraped from. These targets, and other targets of the same group, whose series may not
// exist yet, are scraped at least as often as the policy observes. This needs no
// configuration besides the policy, and works for an nginx in another namespace as well as
// for the policy's own pods.
//
// pace.go computes intervals, policies.go reads the policies, run.go keeps the intervals up
// to date.
package pace

import (
	"cmp"
	"time"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
)

// Bounds limit how often targets are scraped for policies.
type Bounds struct {
	// Usual is the interval of a target that does not state one.
	Usual time.Duration
	// Least is the shortest interval.
	Least time.Duration
	// Most is the maximum number of targets that are scraped more often because of policies.
	Most int
}

// Paced is a list of targets with the intervals that policies need.
type Paced struct {
	Targets []target.Target
	// Accelerated is the number of targets that are scraped more often because of policies,
	// and Left is the number that are not because Most was reached.
	Accelerated, Left int
}

// Asked is the intervals that policies need, by origin of the series. The zero value needs
// none.
type Asked struct {
	// Every is the shortest interval at which policies read series of an origin.
	Every map[store.Origin]time.Duration
	// Floor is the shortest interval for a target that is slow to respond: a target that is
	// scraped more often than it can respond has no values at all.
	Floor map[store.Origin]time.Duration
}

// floorOf returns the shortest interval for a target with a given response time: at least
// twice that time. It is a second times a power of two, so that it changes rarely.
func floorOf(took time.Duration) time.Duration {
	floor := time.Second
	for floor < 2*took {
		floor *= 2
	}
	return floor
}

// Apply sets the interval of each target to the shortest of its own, the one needed for its
// origin, and the one needed for another target of its group. If more targets than b.Most
// would be accelerated, the first ones are. It does not change kubelets, which take a new
// measurement only about every ten seconds. It does not modify its arguments. Cost:
// O(targets).
func Apply(targets []target.Target, asked Asked, b Bounds) Paced {
	groups := map[string]time.Duration{}
	for _, t := range targets {
		if d, ok := asked.Every[originOf(t)]; ok && t.Group != "" {
			groups[t.Group] = shortest(groups[t.Group], d)
		}
	}
	paced := Paced{Targets: make([]target.Target, len(targets))}
	for i, t := range targets {
		want := shortest(asked.Every[originOf(t)], groups[t.Group])
		if want != 0 && t.Job != target.KubeletsJob {
			want = max(want, b.Least, asked.Floor[originOf(t)])
			switch faster := want < cmp.Or(t.Interval, b.Usual); {
			case faster && paced.Accelerated < b.Most:
				t.Interval = want
				paced.Accelerated++
			case faster:
				paced.Left++
			}
		}
		paced.Targets[i] = t
	}
	return paced
}

// originOf returns the origin of the series of a target.
func originOf(t target.Target) store.Origin { return store.Origin{Job: t.Job, Instance: t.Address} }

// shortest returns the shorter of two intervals, where 0 means none.
func shortest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// longest returns the longest interval of a target, without kubelets.
func longest(targets []target.Target, usual time.Duration) time.Duration {
	var d time.Duration
	for _, t := range targets {
		if t.Job != target.KubeletsJob {
			d = max(d, cmp.Or(t.Interval, usual))
		}
	}
	return d
}
