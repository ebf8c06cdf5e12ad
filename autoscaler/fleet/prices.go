package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// The values of FlavorStatus.PriceSource.
const (
	fromAnnotation = "Annotation"
	fromCatalogue  = "Catalogue"
	fromList       = "List"
)

// price is the price of a machine of a flavor per hour.
type price struct {
	microDollars int64
	source       string
	known        bool
}

// Prices are the instance types in a fleet's pricing, with their prices.
type Prices struct {
	types []catalogue.Flavor
	of    map[string]price // by type name
}

// Types returns all instance types, ordered by name. The caller must not change them.
func (p *Prices) Types() []catalogue.Flavor { return p.types }

// add adds instance types. They replace existing ones of the same name.
func (p *Prices) add(types []catalogue.Flavor, source string) {
	of := make(map[string]price, len(p.of)+len(types))
	for i := range types {
		of[types[i].Name] = price{types[i].MicroDollarsPerHour, source, true}
	}
	all := slices.Clone(types)
	for i := range p.types {
		if name := p.types[i].Name; !of[name].known {
			all, of[name] = append(all, p.types[i]), p.of[name]
		}
	}
	slices.SortFunc(all, func(a, b catalogue.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	p.types, p.of = all, of
}

// pricesOf returns the price of each flavor: that of the provider, else that of its instance type in the catalogue or
// list, else that of its name there.
func pricesOf(flavors []provider.Flavor, known *Prices) map[string]price {
	found := make(map[string]price, len(flavors))
	for i := range flavors {
		switch f := &flavors[i]; {
		case f.HasPrice:
			found[f.Name] = price{f.MicroDollarsPerHour, fromAnnotation, true}
		case known.of[f.InstanceType].known:
			found[f.Name] = known.of[f.InstanceType]
		default:
			found[f.Name] = known.of[f.Name]
		}
	}
	return found
}

// ReadPrices reads the prices that a fleet's pricing refers to: list prices, overridden by those of a catalogue in a
// ConfigMap.
func ReadPrices(ctx context.Context, c client.Reader, from *v1alpha1.FleetPricing) (*Prices, error) {
	found := &Prices{}
	if from.List != "" {
		types, err := pricelist.Read(from.List, from.Region)
		if err != nil {
			return nil, &provider.Refused{Reason: v1alpha1.FleetReasonPriceListUnknown, Message: "spec.pricing: " + err.Error()}
		}
		found.add(types, fromList)
	}
	if from.Catalogue != nil {
		types, err := readCatalogue(ctx, c, from.Catalogue)
		if err != nil {
			return nil, &provider.Refused{Reason: v1alpha1.FleetReasonCatalogueUnreadable, Message: err.Error()}
		}
		found.add(types, fromCatalogue)
	}
	return found, nil
}

// readCatalogue reads the instance types of a catalogue.
func readCatalogue(ctx context.Context, c client.Reader, ref *v1alpha1.PriceCatalogue) ([]catalogue.Flavor, error) {
	where := fmt.Sprintf("the price catalogue in ConfigMap %s/%s", ref.Namespace, ref.Name)
	var m corev1.ConfigMap
	if err := c.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	text, ok := m.Data[ref.Key]
	if !ok {
		return nil, fmt.Errorf("read %s: it has no key %s", where, ref.Key)
	}
	flavors, err := catalogue.ReadFlavors(ref.Key, strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	return flavors, nil
}

// withoutPrices marks flavors without a price as unavailable, and returns a message that names them; empty if there are
// none. Their machines stay: their cost is unknown and counts as 0.
func withoutPrices(flavors []provider.Flavor, prices map[string]price, spec *v1alpha1.NodeFleetSpec) string {
	var names []string
	for i := range flavors {
		if f := &flavors[i]; f.Problem == "" && !prices[f.Name].known {
			f.Problem = "no price is known"
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	more := ""
	if len(names) > 10 {
		more = fmt.Sprintf(" and %d more", len(names)-10)
		names = names[:10]
	}
	annotate := ""
	if spec.ClusterAPI != nil {
		annotate = "set the annotation " + v1alpha1.AnnotationPricePerHour + " on the MachineDeployment, or "
	}
	return "no price is known for " + strings.Join(names, ", ") + more + ", so none is bought: " + annotate + "add it to the catalogue that spec.pricing.catalogue names"
}

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

// Offers returns what a fleet can buy, ordered by name, to explain why it buys nothing for a pod. It interprets the
// inventory like a round and uses the same prices. It ignores the combined effects of several pods or fleets, and the
// fleet's limits, which the fleet's conditions report.
//
// Cost: O(nodes + pods + flavors).
func Offers(w *world.World, fleet *v1alpha1.NodeFleet, inventory *provider.Inventory, prices *Prices, now time.Time) []Offer {
	s := stockOf(fleet, inventory.Clone())
	limitToSeen(fleet, s.inventory)
	s.prices = pricesOf(s.inventory.Flavors, prices)
	withoutPrices(s.inventory.Flavors, s.prices, &fleet.Spec)
	lags := func(string) time.Duration { return 0 }
	seen := observe(w, []*stock{s}, s, lags, runtimes.NewLearner(), now)

	buyable := make(map[string]*cluster.Flavor, len(seen.state.Flavors))
	for i := range seen.state.Flavors {
		buyable[seen.state.Flavors[i].Name] = &seen.state.Flavors[i]
	}
	rows := rowsOf(fleet)
	all := make([]Offer, 0, len(s.inventory.Flavors))
	for i := range s.inventory.Flavors {
		f := &s.inventory.Flavors[i]
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
	return all
}

// BackingOff describes the back-off of a flavor, or returns "". s may be nil. The back-off may be for machines that did not
// come, that did not stay ready, or that pods could not use.
func BackingOff(s *v1alpha1.FlavorStatus, now time.Time) string {
	if s == nil || s.BackOffUntil == nil || !s.BackOffUntil.After(now) {
		return ""
	}
	return fmt.Sprintf("in back-off until %s: its last machines did not become usable, or did not stay so", s.BackOffUntil.UTC().Format(time.RFC3339))
}

// ReadyAfter returns the expected time from the order of a machine of a flavor until it accepts pods.
func ReadyAfter(fleet *v1alpha1.NodeFleet, flavor string) time.Duration {
	for i := range fleet.Status.Flavors {
		if fleet.Status.Flavors[i].Name == flavor {
			return lagOf(fleet, &fleet.Status.Flavors[i])
		}
	}
	return lagOf(fleet, nil)
}
