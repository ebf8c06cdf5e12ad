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
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
)

// Series finds the origins of series.
type Series interface {
	// Origins returns the origins of the series that an expression reads.
	Origins(ctx context.Context, expression string) (map[store.Origin]bool, error)
}

// demand is the queries of a policy and its shortest interval; empty if its spec is invalid.
type demand struct {
	generation int64
	every      time.Duration
	queries    []string
}

// demandOf returns the demand of a policy.
func demandOf(p *v1alpha1.ReplicaPolicy) demand {
	d := demand{generation: p.Generation}
	sound, err := replicadecide.New(p.Namespace, &p.Spec)
	if err != nil {
		return d // the autoscaler reports this in the status, and does not observe
	}
	d.every = sound.Shortest
	for _, q := range sound.Questions {
		d.queries = append(d.queries, q.PromQL)
	}
	return d
}

// Read returns the intervals that policies need, by origin, for queries with an interval
// below the given one. It looks up each expression once, however many policies use it, and
// ignores expressions whose origins cannot be determined.
func (p *Pacer) Read(ctx context.Context, below time.Duration) (Asked, error) {
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
			p.Log.V(2).Info("Failed to find the targets of the query of a ReplicaPolicy", "why", err.Error())
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

// floors returns the shortest intervals of targets that are, or recently were, slow to
// respond. Other targets are not in the map.
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

// queries returns the queries of policies with the shortest interval of each. It parses a
// policy again only after its generation changes.
func (p *Pacer) queries(ctx context.Context) (map[string]time.Duration, error) {
	var list v1alpha1.ReplicaPolicyList
	// The objects of the cache are not modified.
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
