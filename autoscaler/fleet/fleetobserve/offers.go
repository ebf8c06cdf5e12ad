package fleetobserve

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/text/plural"
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

// Host returns the labels and taints of its nodes.
func (o *Offer) Host() *constraint.Host {
	if o.flavor.Host == nil {
		return &constraint.Host{}
	}
	return o.flavor.Host
}

// Room returns what pods can use of one machine, without what DaemonSets use.
func (o *Offer) Room() packing.Size { return o.flavor.Size }

// Offers returns what a fleet can buy, ordered by name, to explain why it buys nothing for a pod, and why it leaves pods to
// another buyer, by the names of these pods. It interprets the inventory like a round and uses the same prices. It ignores
// the combined effects of several pods or fleets, and the fleet's limits, which the fleet's conditions report.
//
// Cost: O(nodes + pods · (1 + rivals) + flavors), and O(pods · flavors) for pods that a rival serves.
func Offers(w *world.World, fleet *v1alpha1.NodeFleet, inventory *provider.Inventory, prices *Prices, now time.Time) (all []Offer, left map[string]string) {
	s := StockOf(fleet, inventory.Clone())
	s.SetPrices(prices)
	lags := func(string) time.Duration { return 0 }
	seen := observe(w, []*Stock{s}, s, lags, runtimes.NewLearner(), now)

	buyable := make(map[string]*cluster.Flavor, len(seen.State.Flavors))
	for i := range seen.State.Flavors {
		buyable[seen.State.Flavors[i].Name] = &seen.State.Flavors[i]
	}
	rows := RowsOf(fleet)
	all = make([]Offer, 0, len(s.Inventory.Flavors))
	for i := range s.Inventory.Flavors {
		f := &s.Inventory.Flavors[i]
		o := Offer{Name: f.Name}
		switch can := buyable[f.Name]; {
		case f.Problem != "":
			o.Hold = f.Problem
		case can == nil:
			o.Hold = "DaemonSet pods and static pods leave no room on it"
		case !can.Sells(1):
			o.Hold = "quota: it has its maximum of " + plural.Count(f.Max, "machine")
		default:
			o.Hold = BackingOff(rows[f.Name], now)
			o.flavor = *can
		}
		all = append(all, o)
	}
	left = make(map[string]string, len(seen.left))
	for pod, rival := range seen.left {
		left[pod] = whyLeft(rival, 1)
	}
	return all, left
}

// BackingOff describes the back-off of a flavor, or returns "". s may be nil. The back-off may be for machines that did not
// come, that did not stay ready, or that pods could not use.
func BackingOff(s *v1alpha1.FlavorStatus, now time.Time) string {
	if s == nil || s.BackOffUntil == nil || !s.BackOffUntil.After(now) {
		return ""
	}
	return fmt.Sprintf("in back-off until %s: its last machines did not become usable, or did not stay so", s.BackOffUntil.UTC().Format(time.RFC3339))
}
