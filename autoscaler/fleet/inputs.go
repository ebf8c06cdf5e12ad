package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/world"
)

// inputs are what a round reads.
type inputs struct {
	world *world.World
	// fleets are those that may have machines, by seniority, with the round's own.
	fleets []*v1alpha1.NodeFleet
	// inventory are the machines of the round's fleet, and provider is the one that knows them.
	inventory *provider.Inventory
	provider  provider.Provider
	// prices are those that the fleet's pricing refers to.
	prices *fleetobserve.Prices
}

// read reads all input of the round concurrently. The machines of other fleets become known to the reconciler.
func (r *round) read(ctx context.Context, fleets []v1alpha1.NodeFleet) (*inputs, error) {
	w, err := world.Read(ctx, r.Client, r.Migrations)
	if err != nil {
		return nil, err
	}
	w.DaemonSizes, w.Facts = &r.daemons, &r.facts
	own, err := r.NewProvider(r.fleet, w.Nodes)
	if err != nil {
		return nil, &waiting{v1alpha1.FleetReasonProviderRefused, err.Error()}
	}
	in := &inputs{world: w, fleets: make([]*v1alpha1.NodeFleet, 0, len(fleets))}
	var wg sync.WaitGroup
	var beside, unread, unknown error
	wg.Go(func() { beside = r.besideClusterAutoscaler(ctx) })
	wg.Go(func() { in.prices, unread = fleetobserve.ReadPrices(ctx, r.Live, &r.fleet.Spec.Pricing) })
	for i := range fleets {
		f := &fleets[i]
		if f.Name == r.fleet.Name {
			in.fleets = append(in.fleets, r.fleet)
			continue
		}
		p, err := r.NewProvider(f, w.Nodes)
		if err != nil {
			continue // it can have no machines
		}
		in.fleets = append(in.fleets, f)
		wg.Go(func() {
			_, _, _ = r.inventory(ctx, f, p) // see takeStock: the last answer counts
		})
	}
	in.inventory, in.provider, unknown = r.inventory(ctx, r.fleet, own)
	wg.Wait()
	switch {
	case beside != nil:
		return nil, beside
	case unread != nil:
		return nil, r.pricesUnread(unread)
	case unknown != nil:
		return nil, unknown
	case ctx.Err() != nil:
		return nil, fmt.Errorf("list the machines of all fleets: %w", ctx.Err())
	}
	return in, nil
}

// pricesUnread suspends the fleet because its prices cannot be read.
func (r *round) pricesUnread(err error) error {
	if refused := (*provider.Refused)(nil); errors.As(err, &refused) {
		r.report.Condition(v1alpha1.FleetPriced, false, refused.Reason, refused.Message)
		return &waiting{refused.Reason, refused.Message}
	}
	return err
}

// templatesTaken refuses a fleet that shares a template with an older fleet: both would buy for the same pods, and only
// the owner may change the template. fleets are ordered by seniority.
func templatesTaken(fleet *v1alpha1.NodeFleet, fleets []v1alpha1.NodeFleet) error {
	own := templatesOf(fleet)
	for i := range fleets {
		f := &fleets[i]
		if f.Name == fleet.Name {
			return nil
		}
		for template := range templatesOf(f) {
			if own[template] {
				return &provider.Refused{Reason: v1alpha1.FleetReasonTemplateInUse, Message: fmt.Sprintf(
					"spec.clusterAPI.templates: MachineDeployment %s is already a template of NodeFleet %s: create another for this fleet", template, f.Name)}
			}
		}
	}
	return nil
}

// templatesOf returns the MachineDeployments that a fleet copies.
func templatesOf(fleet *v1alpha1.NodeFleet) map[types.NamespacedName]bool {
	found := map[types.NamespacedName]bool{}
	if from := fleet.Spec.ClusterAPI; from != nil && fleet.Spec.Provider.IsClusterAPI() {
		for i := range from.Templates {
			found[types.NamespacedName{Namespace: from.Namespace, Name: from.Templates[i].MachineDeployment}] = true
		}
	}
	return found
}

// lastUpdated is the format in which cluster-autoscaler writes the time of its status.
const lastUpdated = "2006-01-02 15:04:05.999999999 -0700 MST"

// besideClusterAutoscaler suspends the fleet while a cluster-autoscaler runs in the cluster: both would respond to the
// same pods.
func (r *round) besideClusterAutoscaler(ctx context.Context) error {
	const alive = 10 * time.Minute
	var status corev1.ConfigMap
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, &status)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("check for a cluster-autoscaler: %w", err)
	}
	text := status.Annotations["cluster-autoscaler.kubernetes.io/last-updated"]
	if at, err := time.Parse(lastUpdated, text); err != nil || r.now.Sub(at) > alive {
		return nil // it no longer runs
	}
	return &waiting{v1alpha1.FleetReasonClusterAutoscalerActive, "a cluster-autoscaler runs in this cluster, or has run within ten minutes (ConfigMap kube-system/cluster-autoscaler-status was written at " +
		text + "): the fleet takes over ten minutes after it has stopped"}
}

// takeStock collects the last known machines of all fleets. self are those of the round's fleet.
func (r *round) takeStock(fleets []*v1alpha1.NodeFleet, self *fleetobserve.Stock) ([]*fleetobserve.Stock, error) {
	var all []*fleetobserve.Stock
	for _, f := range fleets {
		if f.Name == r.fleet.Name {
			all = append(all, self)
		} else if inventory := r.lastInventory(f.UID); inventory != nil { // else its nodes are left unchanged
			all = append(all, fleetobserve.StockOf(f, inventory))
		}
	}
	fleetobserve.RemoveClaimed(all)
	if len(self.Inventory.Flavors) == 0 {
		return nil, &waiting{v1alpha1.FleetReasonNoFlavors, noFlavors(&r.fleet.Spec)}
	}
	return all, nil
}

// noFlavors describes why nothing can be bought.
func noFlavors(spec *v1alpha1.NodeFleetSpec) string {
	if spec.Provider == v1alpha1.FleetKarpenter {
		return "spec.pricing contains no instance type"
	}
	if spec.ClusterAPI == nil {
		return "the project has access to no flavor: have flavors created or shared"
	}
	if len(spec.ClusterAPI.Templates) > 0 {
		return "spec.pricing contains no instance type"
	}
	return fmt.Sprintf("no MachineDeployment in namespace %s matches spec.clusterAPI", spec.ClusterAPI.Namespace)
}
