package fleet

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Offer is a flavor of a fleet as a purchase decision sees it.
type Offer struct {
	// Name is the name of the flavor.
	Name string
	// Hold is why no machine of the flavor is bought for any pod; empty if one can be bought.
	Hold string

	flavor cluster.Flavor
}

// Refuses returns why no machine of the flavor is bought for a pod, or "".
func (o *Offer) Refuses(p *cluster.Pod) string {
	if o.Hold != "" {
		return o.Hold
	}
	asks := purchase.PodOf(p)
	return asks.RefusedBy(&o.flavor)
}

// Offers returns what a fleet can buy, ordered by name, to explain why it buys nothing for a pod. It interprets the
// inventory like a round and uses the same prices. It ignores the combined effects of several pods or fleets, and the
// fleet's limits, which the fleet's conditions report.
//
// Cost: O(nodes + pods + flavors).
func Offers(w *world.World, fleet *v1alpha1.NodeFleet, inventory *provider.Inventory, prices *Prices, now time.Time) []Offer {
	s := stockOf(fleet, inventory.Clone())
	limitToSeen(fleet, s.inventory)
	s.prices = pricesOf(s.inventory.Flavors, prices)
	withoutPrices(s.inventory.Flavors, s.prices)
	lags := func(string) time.Duration { return 0 }
	seen := observe(w, []*stock{s}, s, lags, runtimes.NewLearner(), now)

	buyable := make(map[string]*cluster.Flavor, len(seen.state.Flavors))
	for i := range seen.state.Flavors {
		buyable[seen.state.Flavors[i].Name] = &seen.state.Flavors[i]
	}
	status := make(map[string]*v1alpha1.FlavorStatus, len(fleet.Status.Flavors))
	for i := range fleet.Status.Flavors {
		status[fleet.Status.Flavors[i].Name] = &fleet.Status.Flavors[i]
	}
	all := make([]Offer, 0, len(s.inventory.Flavors))
	for i := range s.inventory.Flavors {
		f := &s.inventory.Flavors[i]
		o := Offer{Name: f.Name}
		switch can := buyable[f.Name]; {
		case f.Problem != "":
			o.Hold = f.Problem
		case can == nil:
			o.Hold = "DaemonSet pods leave no room on it"
		case !can.Sells(1):
			o.Hold = fmt.Sprintf("quota: it has its maximum of %d machines", f.Max)
		default:
			o.Hold = BackingOff(status[f.Name], now)
			o.flavor = *can
		}
		all = append(all, o)
	}
	return all
}

// BackingOff describes the back-off of a flavor whose last machines did not come, or returns "". s may be nil.
func BackingOff(s *v1alpha1.FlavorStatus, now time.Time) string {
	if s == nil || s.BackOffUntil == nil || !s.BackOffUntil.After(now) {
		return ""
	}
	return fmt.Sprintf("sold out: the nodes of %d machines did not become ready, in back-off until %s", s.Failures, s.BackOffUntil.UTC().Format(time.RFC3339))
}

// ReadyAfter returns the expected time from the order of a machine of a flavor until it accepts pods.
func ReadyAfter(fleet *v1alpha1.NodeFleet, flavor string) time.Duration {
	for i := range fleet.Status.Flavors {
		if fleet.Status.Flavors[i].Name == flavor {
			return fleetdecide.ExpectedLag(fleet.Status.Flavors[i].Lag, fleet.Spec.Scaling.ExpectedLag.Duration)
		}
	}
	return fleet.Spec.Scaling.ExpectedLag.Duration
}
