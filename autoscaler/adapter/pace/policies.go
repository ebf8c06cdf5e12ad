package pace

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/replica/decide"
)

// Series finds where series were scraped.
type Series interface {
	// Origins returns where the series were scraped that an expression reads.
	Origins(ctx context.Context, expression string) (map[store.Origin]bool, error)
}

// demand is what a policy asks, and how often; nothing if its spec is invalid.
type demand struct {
	generation int64
	every      time.Duration
	queries    []string
}

// demandOf reads a policy.
func demandOf(p *v1alpha1.ReplicaPolicy) demand {
	d := demand{generation: p.Generation}
	sound, err := decide.New(p.Namespace, &p.Spec)
	if err != nil {
		return d // the autoscaler says so in its status, and does not look
	}
	d.every = sound.Shortest
	for _, q := range sound.Questions {
		d.queries = append(d.queries, q.PromQL)
	}
	return d
}

// Look returns how often what comes from where is looked at, of what is looked at more often
// than once in below. An expression is looked up once, however many policies ask it; one that
// cannot be is left out.
func (p *Pacer) Look(ctx context.Context, below time.Duration) (Asked, error) {
	queries, err := p.queries(ctx)
	if err != nil {
		return Asked{}, err
	}
	asked := map[store.Origin]time.Duration{}
	for _, expression := range slices.Sorted(maps.Keys(queries)) {
		every := queries[expression]
		if every >= below {
			continue
		}
		origins, err := p.Series.Origins(ctx, expression)
		if err != nil {
			p.Log.V(2).Info("Not found out where it comes from what a ReplicaPolicy asks", "why", err.Error())
			continue
		}
		for o := range origins {
			if o != (store.Origin{}) {
				asked[o] = shortest(asked[o], every)
			}
		}
	}
	if len(asked) == 0 {
		return Asked{}, nil
	}
	return Asked{Every: asked, Floor: p.floors(p.Clock.Now())}, nil
}

// floors returns how often targets may be scraped that take or took long to answer, those
// without any bound left out.
func (p *Pacer) floors(now time.Time) map[store.Origin]time.Duration {
	if p.slow == nil {
		p.slow = map[store.Origin]slow{}
	}
	for o, took := range p.Took() {
		if floor := floorOf(took); floor > time.Second && floor >= p.slow[o].floor {
			p.slow[o] = slow{floor, now}
		}
	}
	floors := map[store.Origin]time.Duration{}
	for o, s := range p.slow {
		if now.Sub(s.at) > patience {
			delete(p.slow, o)
			continue
		}
		floors[o] = s.floor
	}
	return floors
}

// queries returns what policies ask, and how often it is asked at most. A policy that has not
// changed is not read again.
func (p *Pacer) queries(ctx context.Context) (map[string]time.Duration, error) {
	var list v1alpha1.ReplicaPolicyList
	// Nothing is changed in what the cache has.
	if err := p.Policies.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ReplicaPolicies: %w", err)
	}
	queries, known := map[string]time.Duration{}, map[types.UID]demand{}
	for i := range list.Items {
		policy := &list.Items[i]
		if policy.DeletionTimestamp != nil || !slices.Contains(p.Sources, policy.Spec.Metrics.Source) {
			continue
		}
		d, ok := p.known[policy.UID]
		if !ok || d.generation != policy.Generation {
			d = demandOf(policy)
		}
		known[policy.UID] = d
		for _, q := range d.queries {
			queries[q] = shortest(queries[q], d.every)
		}
	}
	p.known = known
	return queries, nil
}
