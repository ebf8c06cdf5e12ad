package karpenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// concurrency is the maximum number of concurrent requests that create or delete NodeClaims of one flavor.
const concurrency = 10

// Buy implements provider.Provider. The NodeClaims of an order are numbered from 0 and named after their number, so that
// none is created twice. One that Karpenter has deleted is not created again.
func (p *Provider) Buy(ctx context.Context, intent, flavor string, from, to int) error {
	o := p.named[flavor]
	if o == nil {
		return fmt.Errorf("buy %s: it is no longer offered: %w", flavor, provider.ErrChanged)
	}
	all, err := p.list(ctx)
	if err != nil {
		return err
	}
	others := p.memory.counted(p.used(all), flavor)
	made := func(name string) bool {
		return others[name] || slices.ContainsFunc(all, func(c claim) bool { return c.Name == name })
	}
	var missing []string
	for i := range to - from {
		name := claimName(p.fleet.Name, intent, flavor, i)
		if !made(name) {
			missing = append(missing, name)
		}
		delete(others, name)
	}
	if len(others) != from {
		return fmt.Errorf("buy %s: expected %d NodeClaims, found %d: %w", flavor, from, len(others), provider.ErrChanged)
	}
	return parallel(missing, func(name string) error { return p.create(ctx, o, name) })
}

// create creates a NodeClaim. It is no error if it exists: then the order was made before.
func (p *Provider) create(ctx context.Context, o *offer, name string) error {
	object, err := o.claim(name, p.fleet, p.spec).unstructured()
	if err != nil {
		return err
	}
	err = p.claims.Writer.Create(ctx, object)
	switch {
	case err == nil:
		p.memory.expect(name, o.name, p.claims.Clock.Now())
		return nil
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err):
		return forbidden("create NodeClaims", err)
	case apierrors.IsInvalid(err):
		return &provider.Refused{Reason: v1alpha1.FleetReasonProviderRefused, Message: fmt.Sprintf("the API server rejects a NodeClaim of spec.karpenter: %v", err)}
	}
	return fmt.Errorf("create NodeClaim %s: %w", name, err)
}

// Release implements provider.Provider. Karpenter drains the nodes of deleted NodeClaims and terminates their machines.
func (p *Provider) Release(ctx context.Context, _, flavor string, from int, machines []string) error {
	all, err := p.list(ctx)
	if err != nil {
		return err
	}
	staying := p.memory.counted(p.used(all), flavor)
	for _, name := range machines {
		delete(staying, name)
	}
	if len(staying) != from-len(machines) {
		return fmt.Errorf("release %d of %d NodeClaims of %s: %d would remain: %w", len(machines), from, flavor, len(staying), provider.ErrChanged)
	}
	uids := map[string]types.UID{}
	for i := range all {
		if all[i].DeletionTimestamp == nil {
			uids[all[i].Name] = all[i].UID
		}
	}
	return parallel(machines, func(name string) error { return p.remove(ctx, name, uids[name]) })
}

// remove deletes a NodeClaim; without a UID, it is gone or leaving.
func (p *Provider) remove(ctx context.Context, name string, uid types.UID) error {
	if lost := p.memory.release(name); lost || uid == "" {
		return nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(claimKind)
	object.SetName(name)
	err := p.claims.Writer.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	p.memory.keep(name)
	if apierrors.IsForbidden(err) {
		return forbidden("delete NodeClaims", err)
	}
	return fmt.Errorf("delete NodeClaim %s: %w", name, err)
}

// parallel calls do for each name, some concurrently, and waits for all.
func parallel(names []string, do func(name string) error) error {
	slots := make(chan struct{}, concurrency)
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(name)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
