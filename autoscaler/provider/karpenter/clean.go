package karpenter

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/autoscaler/provider"
)

var _ provider.Cleaner = (*Provider)(nil)

// Clean implements provider.Cleaner: it deletes the NodeClaims that [Provider.setAside] has set aside.
func (p *Provider) Clean(ctx context.Context) error {
	return parallel(slices.Sorted(maps.Keys(p.aside)), func(name string) error { return p.remove(ctx, name, p.aside[name]) })
}

// setAside removes the NodeClaims that no longer serve the fleet: those of another spec that Karpenter has long left
// untouched, such as because their NodeClass is that of another cloud. They are no machines, and say nothing about their
// flavors. If Karpenter begins to process one before it is deleted, it terminates the machine.
func (p *Provider) setAside(all []claim) (used []claim) {
	p.aside = map[string]types.UID{}
	for i := range all {
		c := &all[i]
		if c.untouched() && !p.isCurrent(c) && p.claims.Clock.Since(c.CreationTimestamp.Time) >= uptakePatience {
			p.aside[c.Name] = c.UID
			p.memory.forget(c.Name)
		} else {
			used = append(used, *c)
		}
	}
	return used
}

// used returns the NodeClaims without those that are set aside and that Karpenter still leaves untouched.
func (p *Provider) used(all []claim) []claim {
	return slices.DeleteFunc(slices.Clone(all), func(c claim) bool { return p.aside[c.Name] == c.UID && c.untouched() })
}
