// Package karpenter creates and deletes NodeClaims of Karpenter, without a NodePool. Each instance type of the fleet's
// pricing, in each zone and of each capacity type that the fleet names, is a flavor. Karpenter launches the machine of a
// NodeClaim, registers its node and, when the NodeClaim is deleted, drains the node and terminates the machine. It
// disrupts only nodes of NodePools.
//
// The state is only in the NodeClaims: their label identifies the fleet, their requirements the flavor, and their names
// the order and the number in it, so that repeating an order creates nothing twice. Karpenter deletes NodeClaims that it
// cannot launch, or whose nodes do not register. What is remembered between rounds serves to learn from that, and may be
// lost (memory.go).
//
// The files follow a round: karpenter.go (the observation), claim.go (NodeClaims), class.go (the NodeClass), offer.go and
// flavor.go (what can be bought), pool.go (NodePools, which buy, too), memory.go and lost.go (NodeClaims that Karpenter has
// deleted), clean.go (NodeClaims that serve no more), buy.go (the writes).
package karpenter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// Claims keeps what is remembered of NodeClaims between rounds. It is safe for concurrent use; the Providers of one fleet
// are not, except as [provider.Provider] says.
type Claims struct {
	// Live reads without a cache. Writer creates and deletes NodeClaims.
	Live   client.Reader
	Writer client.Client
	// Mapper finds the served versions of kinds. It may remember versions that are no longer served. Rediscover returns
	// one that remembers nothing, for kinds of which that seems to be so; it may be nil.
	Mapper     meta.RESTMapper
	Rediscover func() (meta.RESTMapper, error)
	// Clock returns the current time.
	Clock clock.PassiveClock

	mu     sync.Mutex
	fleets map[types.UID]*memory
	// rediscovered is the last result of Rediscover, which replaces Mapper.
	rediscovered meta.RESTMapper
}

// mapper returns the mapper that knows most: Mapper or, if again is set, and since it has been, one that remembers nothing
// from before that call.
func (c *Claims) mapper(again bool) (meta.RESTMapper, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if again && c.Rediscover != nil {
		found, err := c.Rediscover()
		if err != nil {
			return nil, fmt.Errorf("discover what the cluster serves: %w", err)
		}
		c.rediscovered = found
	}
	if c.rediscovered != nil {
		return c.rediscovered, nil
	}
	return c.Mapper, nil
}

// For returns the Provider of a fleet. nodes are those of the cluster, by name. types returns the rows of the fleet's
// pricing, ordered by name.
func (c *Claims) For(fleet *v1alpha1.NodeFleet, nodes map[string]*corev1.Node, rows func(ctx context.Context) ([]catalogue.Flavor, error)) *Provider {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fleets == nil {
		c.fleets = map[types.UID]*memory{}
	}
	if c.fleets[fleet.UID] == nil {
		c.fleets[fleet.UID] = newMemory()
	}
	return &Provider{claims: c, memory: c.fleets[fleet.UID], fleet: fleet, spec: fleet.Spec.Karpenter, nodes: nodes, rows: rows}
}

// Provider creates and deletes the NodeClaims of one fleet.
type Provider struct {
	claims *Claims
	memory *memory
	fleet  *v1alpha1.NodeFleet
	spec   *v1alpha1.KarpenterNodes
	nodes  map[string]*corev1.Node
	rows   func(ctx context.Context) ([]catalogue.Flavor, error)

	// These are set by Observe: what can be bought, ordered by name, the same by name, and what identifies the template.
	offered  []offer
	named    map[string]*offer
	template string
	// aside are the UIDs of NodeClaims that no longer serve the fleet, by name.
	aside map[string]types.UID
}

var _ provider.Provider = (*Provider)(nil)

// Observe implements provider.Provider. It takes three requests, for the NodeClaims, the NodeClass and the NodePools, one
// more if Karpenter has deleted NodeClaims since the last time, and those of a discovery while one of these kinds or the
// NodeClass is not found.
func (p *Provider) Observe(ctx context.Context) (*provider.Inventory, error) {
	began := p.memory.begin()
	all, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := p.rows(ctx)
	if err != nil {
		return nil, err
	}
	if p.offered, err = offers(p.spec, rows); err != nil {
		return nil, err
	}
	p.template = templateOf(p.spec)
	p.named = make(map[string]*offer, len(p.offered))
	for i := range p.offered {
		p.named[p.offered[i].name] = &p.offered[i]
	}
	problem, err := p.classProblem(ctx)
	if err != nil {
		return nil, err
	}
	rivals, err := p.rivals(ctx)
	if err != nil {
		return nil, err
	}
	p.memory.observe(all, began, p.claims.Clock.Now())
	if err := p.unprocessed(all); err != nil {
		return nil, err
	}
	all = p.setAside(all)
	p.explainLost(ctx, problem)
	found := &provider.Inventory{Machines: p.machines(all), Rivals: rivals}
	examples := p.examples(all)
	wants := count(found.Machines)
	for i := range p.offered {
		f := p.flavor(&p.offered[i], examples[p.offered[i].name])
		f.Want, f.Problem, f.Named = wants[f.Name], problem, problem != ""
		delete(wants, f.Name)
		found.Flavors = append(found.Flavors, f)
	}
	for _, name := range slices.Sorted(maps.Keys(wants)) { // which the spec no longer offers
		found.Flavors = append(found.Flavors, provider.Flavor{
			Name: name, Want: wants[name], Max: wants[name], Problem: "it has machines, but spec.karpenter and spec.pricing no longer offer it",
		})
	}
	slices.SortFunc(found.Flavors, func(a, b provider.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// unprocessed suspends the fleet while Karpenter leaves one of its NodeClaims untouched, which says nothing about the
// flavor. NodeClaims of another spec, such as of a NodeClass that Karpenter does not know, do not count.
func (p *Provider) unprocessed(all []claim) error {
	for i := range all {
		c := &all[i]
		if c.untouched() && p.isCurrent(c) && p.claims.Clock.Since(c.CreationTimestamp.Time) >= uptakePatience {
			return &provider.Refused{Reason: v1alpha1.FleetReasonProviderUnreachable, Message: c.waits() + ". Until then, the fleet changes nothing"}
		}
	}
	return nil
}

// list reads the NodeClaims of the fleet, ordered by name.
func (p *Provider) list(ctx context.Context) ([]claim, error) {
	list := NewList()
	err := p.claims.Live.List(ctx, list, client.MatchingLabels{v1alpha1.LabelFleet: p.fleet.Name})
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, p.notServed()
	case apierrors.IsForbidden(err):
		return nil, forbidden("list NodeClaims", err)
	case err != nil:
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	return readClaims(list)
}

// notServed explains that the cluster has no usable NodeClaims.
func (p *Provider) notServed() error {
	mapper, err := p.claims.mapper(true)
	if err != nil {
		return err
	}
	served, _ := mapper.RESTMappings(claimKind.GroupKind()) // an error means that there are none
	others := slices.DeleteFunc(served, func(m *meta.RESTMapping) bool { return m.GroupVersionKind == claimKind })
	refused := &provider.Refused{Reason: v1alpha1.FleetReasonNodeClaimsNotServed}
	if len(others) == 0 {
		refused.Message = fmt.Sprintf("the cluster does not serve NodeClaims of %s: install Karpenter 1.0 or later, with the provider of your cloud", claimKind.GroupVersion())
		return refused
	}
	refused.Message = fmt.Sprintf("the cluster serves NodeClaims as %s, but not as %s: install a version of Karpenter that serves it",
		others[0].GroupVersionKind.GroupVersion(), claimKind.GroupVersion())
	return refused
}

// forbidden explains that the autoscaler lacks a permission.
func forbidden(what string, err error) error {
	return &provider.Refused{Reason: v1alpha1.FleetReasonForbidden, Message: fmt.Sprintf(
		"the autoscaler may not %s: apply manifests/karpenter, or set autoscaler.karpenter.enabled in the values of the chart (%v)", what, err)}
}

// machines converts NodeClaims, and those that are lost, for the fleet. They are ordered by name.
func (p *Provider) machines(all []claim) []provider.Machine {
	on, lost := nodesOf(all, p.nodes), p.memory.losses()
	machines := make([]provider.Machine, 0, len(all)+len(lost))
	for i := range all {
		if _, is := lost[all[i].Name]; !is {
			machines = append(machines, p.machine(&all[i], on[all[i].Name]))
		}
	}
	for name, l := range lost {
		machines = append(machines, provider.Machine{Name: name, Flavor: l.flavor, Ordered: l.ordered, Failed: l.why})
	}
	slices.SortFunc(machines, func(a, b provider.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return machines
}

// machine converts a NodeClaim, whose node may be nil.
func (p *Provider) machine(c *claim, node *corev1.Node) provider.Machine {
	m := provider.Machine{
		Name: c.Name, Flavor: c.flavor(), Node: c.Status.NodeName, Ordered: c.CreationTimestamp.Time, Leaving: c.DeletionTimestamp != nil,
		Outdated: !p.isCurrent(c), Waits: c.waits(), Unidentified: c.ambiguous(),
	}
	if at, late := p.memory.takenUp(c.Name); late {
		m.Ordered = at // it did not take that long to start
	}
	if node != nil {
		m.Node = node.Name
	}
	if m.Unidentified != "" {
		m.Node = ""
	}
	if m.Node == "" && c.launchFails() && p.claims.Clock.Since(m.Ordered) >= launchPatience {
		m.Failed = m.Waits
	}
	return m
}

// count returns the number of machines of each flavor that are not leaving.
func count(machines []provider.Machine) map[string]int {
	n := map[string]int{}
	for i := range machines {
		if !machines[i].Leaving {
			n[machines[i].Flavor]++
		}
	}
	return n
}
