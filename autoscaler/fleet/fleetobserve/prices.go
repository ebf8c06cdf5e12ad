package fleetobserve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// The values of FlavorStatus.PriceSource.
const (
	fromAnnotation = "Annotation"
	fromCatalogue  = "Catalogue"
	fromList       = "List"
)

// Price is the price of a machine of a flavor.
type Price struct {
	// MicroDollars is the price per hour; 0 if it is not known.
	MicroDollars int64
	// Source is where the price is from: a value of FlavorStatus.PriceSource.
	Source string
	// Known distinguishes a price of 0 from none.
	Known bool
	// Interruptions is how often a machine is expected to be interrupted, in a million machine-hours; 0 if its labels do not
	// say that it is a spot machine. In a row of a pricing, it is what the row states.
	Interruptions int64
}

// Prices are the instance types in a fleet's pricing, with their prices.
type Prices struct {
	types []catalogue.Flavor
	of    map[string]Price // by type name
}

// Types returns all instance types, ordered by name. The caller must not change them.
func (p *Prices) Types() []catalogue.Flavor { return p.types }

// add adds instance types. They replace existing ones of the same name.
func (p *Prices) add(types []catalogue.Flavor, source string) {
	of := make(map[string]Price, len(p.of)+len(types))
	for i := range types {
		of[types[i].Name] = Price{types[i].MicroDollarsPerHour, source, true, types[i].Interruptions}
	}
	all := slices.Clone(types)
	for i := range p.types {
		if name := p.types[i].Name; !of[name].Known {
			all, of[name] = append(all, p.types[i]), p.of[name]
		}
	}
	slices.SortFunc(all, func(a, b catalogue.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	p.types, p.of = all, of
}

// pricesOf returns the price of each flavor: that of the provider, else that in the catalogue or list under the name that
// the provider states, else that of its instance type there, else that of its own name there. The interruptions of a spot
// machine are those that the same row states, else those assumed.
func pricesOf(flavors []provider.Flavor, known *Prices, assumed int64) map[string]Price {
	found := make(map[string]Price, len(flavors))
	for i := range flavors {
		f := &flavors[i]
		of := known.of[f.Name]
		switch {
		case f.PricedAs != "":
			of = known.of[f.PricedAs]
		case known.of[f.InstanceType].Known:
			of = known.of[f.InstanceType]
		}
		if f.HasPrice {
			of.MicroDollars, of.Source, of.Known = f.MicroDollarsPerHour, fromAnnotation, true
		}
		if capacity.Of(f.Labels) == capacity.Spot {
			of.Interruptions = cmp.Or(of.Interruptions, assumed)
		} else {
			of.Interruptions = 0
		}
		found[f.Name] = of
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

// SetPrices sets the prices of the fleet's flavors, and the extended resources and ephemeral storage that their providers do not
// know but their pricing states. It marks flavors without a price as unavailable, and returns a message
// that names them; empty if there are none.
func (s *Stock) SetPrices(known *Prices) (unpriced string) {
	s.Prices = pricesOf(s.Inventory.Flavors, known, fleetdecide.InterruptionsOf(&s.Fleet.Spec.Pricing))
	addResources(s.Inventory.Flavors, known)
	unpriced = withoutPrices(s.Inventory.Flavors, s.Prices, &s.Fleet.Spec)
	if row := s.zoned(known); unpriced != "" && row != "" {
		unpriced += fmt.Sprintf(". %s has a price in its zone: to buy there, require the zone in spec.karpenter.requirements", row)
	}
	return unpriced
}

// addResources adds to flavors the extended resources and ephemeral storage that their rows state and their providers do not,
// or only presume. Providers that state the rows of their flavors have read them.
//
// Cost: O(flavors · log rows).
func addResources(flavors []provider.Flavor, known *Prices) {
	for i := range flavors {
		f := &flavors[i]
		row := known.row(f.InstanceType)
		if row == nil {
			row = known.row(f.Name)
		}
		if row == nil || f.PricedAs != "" {
			continue
		}
		if f.Presumed && len(row.Extended) > 0 {
			f.Extended = row.Extended
		} else {
			f.Extended = withMissing(f.Extended, row.Extended)
		}
		if (f.Presumed || f.EphemeralStorage == nil) && row.EphemeralStorage != nil {
			f.EphemeralStorage = row.EphemeralStorage
		}
	}
}

// row returns the instance type with a name, or nil.
func (p *Prices) row(name string) *catalogue.Flavor {
	at, found := slices.BinarySearchFunc(p.types, name, func(row catalogue.Flavor, name string) int { return cmp.Compare(row.Name, name) })
	if !found {
		return nil
	}
	return &p.types[at]
}

// zoned returns the first row with a price in a zone among those of the instance types of flavors without a price, whose
// zone the cloud chooses; empty if there is none. Only machines that Karpenter launches have such rows.
//
// Cost: O(flavors · log rows).
func (s *Stock) zoned(known *Prices) string {
	for i := range s.Inventory.Flavors {
		f := &s.Inventory.Flavors[i]
		if f.PricedAs == "" || s.Prices[f.Name].Known || f.Labels[corev1.LabelTopologyZone] != "" {
			continue
		}
		prefix := f.InstanceType + "@"
		at, _ := slices.BinarySearchFunc(known.types, prefix, func(row catalogue.Flavor, prefix string) int { return cmp.Compare(row.Name, prefix) })
		if at < len(known.types) && strings.HasPrefix(known.types[at].Name, prefix) {
			return known.types[at].Name
		}
	}
	return ""
}

// withoutPrices marks flavors without a price as unavailable, and returns a message that names them; empty if there are
// none. Their machines stay: their cost is unknown and counts as 0.
func withoutPrices(flavors []provider.Flavor, prices map[string]Price, spec *v1alpha1.NodeFleetSpec) string {
	var names []string
	for i := range flavors {
		if f := &flavors[i]; f.Problem == "" && !prices[f.Name].Known {
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
