package fleet

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Offer is a flavor of a fleet as a round looks at it when it buys.
type Offer struct {
	// Name is that of the flavor.
	Name string
	// Hold says why no machine of it is bought, whatever the pod; empty if one can be.
	Hold string

	flavor cluster.Flavor
}

// Refuses returns why no machine of the flavor is bought for a pod, or "".
func (o *Offer) Refuses(p *cluster.Pod) string {
	if o.Hold != "" {
		return o.Hold
	}
	asks := planner.PodOf(p)
	return asks.RefusedBy(&o.flavor)
}

// Offers returns what a fleet can buy, ordered by name, for whoever asks why it buys nothing for a
// pod: by the same reading of the inventory as a round has, and with the prices that it would use.
// What several pods or several fleets come to together is not looked at, nor are the fleet's
// limits: its conditions name those.
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
			o.Hold = "the pods of DaemonSets leave nothing of it"
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

// BackingOff says that no machine of a flavor is bought for now since the last ones did not come,
// or returns "". There may be no status.
func BackingOff(s *v1alpha1.FlavorStatus, now time.Time) string {
	if s == nil || s.BackOffUntil == nil || !s.BackOffUntil.After(now) {
		return ""
	}
	return fmt.Sprintf("sold out: %d machines did not come, in back-off until %s", s.Failures, s.BackOffUntil.UTC().Format(time.RFC3339))
}

// ReadyAfter is how long a machine of a flavor is expected to need from its order until it takes
// pods.
func ReadyAfter(fleet *v1alpha1.NodeFleet, flavor string) time.Duration {
	for i := range fleet.Status.Flavors {
		if fleet.Status.Flavors[i].Name == flavor {
			return decide.ExpectedLag(fleet.Status.Flavors[i].Lag, fleet.Spec.Scaling.ExpectedLag.Duration)
		}
	}
	return fleet.Spec.Scaling.ExpectedLag.Duration
}
