// Package pace has targets scraped as often as ReplicaPolicies look at what comes from them.
//
// A policy asks queries of the store. Where the series were scraped that they read, their
// labels tell: these targets, and the further replicas of them, whose series are still to come,
// are scraped no less often than the policy looks. Nothing has to be said beside the policy,
// and it holds for an nginx in another namespace as for pods of its own.
//
// pace.go says what becomes of targets, policies.go what policies ask for, run.go keeps it so.
package pace

import (
	"cmp"
	"time"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
)

// Bounds say how often targets may be scraped for policies.
type Bounds struct {
	// Usual is how often a target is scraped that does not say so itself.
	Usual time.Duration
	// Least is the shortest interval.
	Least time.Duration
	// Most is how many targets may be scraped more often than they are without policies.
	Most int
}

// Paced is targets with the intervals that policies bring them to.
type Paced struct {
	Targets []target.Target
	// Accelerated is how many are scraped more often for policies, and Left how many are not
	// since there are too many.
	Accelerated, Left int
}

// Asked is what policies ask for, by where series were scraped. The zero value asks for nothing.
type Asked struct {
	// Every is how often what comes from there is looked at.
	Every map[store.Origin]time.Duration
	// Floor is how often a target may be scraped that takes long to answer: one that is scraped
	// more often than it can answer has no value at all.
	Floor map[store.Origin]time.Duration
}

// floorOf is how often a target may be scraped that takes so long to answer: half of the time
// is left over. It is a second times a power of two, so that it changes rarely.
func floorOf(took time.Duration) time.Duration {
	floor := time.Second
	for floor < 2*took {
		floor *= 2
	}
	return floor
}

// Apply gives each target the shortest of its own interval, that asked for by origin, and
// that asked for of another target of its group. Where there are more to accelerate than may be, the
// first are. Kubelets are left as they are: they measure anew every ten seconds or so,
// however often they are asked. The arguments are not changed.
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

// originOf is what the series of a target are known by.
func originOf(t target.Target) store.Origin { return store.Origin{Job: t.Job, Instance: t.Address} }

// shortest is the shorter of two intervals, where 0 is none.
func shortest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// longest is how often the target is scraped that is scraped most rarely.
func longest(targets []target.Target, usual time.Duration) time.Duration {
	var d time.Duration
	for _, t := range targets {
		if t.Job != target.KubeletsJob {
			d = max(d, cmp.Or(t.Interval, usual))
		}
	}
	return d
}
