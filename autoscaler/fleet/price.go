package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/trace"
)

// The values of FlavorStatus.PriceSource.
const (
	fromAnnotation = "Annotation"
	fromCatalogue  = "Catalogue"
)

// price is what a machine of a flavor costs in an hour.
type price struct {
	microDollars int64
	source       string
	known        bool
}

// pricesOf returns the price of each flavor: what the provider knows, else what the
// catalogue says of its instance type or, failing that, of its name.
func pricesOf(flavors []provider.Flavor, catalogue map[string]int64) map[string]price {
	found := make(map[string]price, len(flavors))
	for i := range flavors {
		f := &flavors[i]
		switch listed, ok := listedPrice(f, catalogue); {
		case f.HasPrice:
			found[f.Name] = price{f.MicroDollarsPerHour, fromAnnotation, true}
		case ok:
			found[f.Name] = price{listed, fromCatalogue, true}
		default:
			found[f.Name] = price{}
		}
	}
	return found
}

func listedPrice(f *provider.Flavor, catalogue map[string]int64) (int64, bool) {
	if f.InstanceType != "" {
		if listed, ok := catalogue[f.InstanceType]; ok {
			return listed, true
		}
	}
	listed, ok := catalogue[f.Name]
	return listed, ok
}

// readCatalogue returns the prices of a catalogue by name, none without one.
func readCatalogue(ctx context.Context, c client.Reader, ref *v1alpha1.PriceCatalogue) (map[string]int64, error) {
	if ref == nil {
		return nil, nil
	}
	where := fmt.Sprintf("the price catalogue in ConfigMap %s/%s", ref.Namespace, ref.Name)
	var m corev1.ConfigMap
	if err := c.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	text, ok := m.Data[ref.Key]
	if !ok {
		return nil, fmt.Errorf("read %s: it has no key %s", where, ref.Key)
	}
	flavors, err := trace.ReadFlavors(ref.Key, strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	found := make(map[string]int64, len(flavors))
	for _, f := range flavors {
		found[f.Name] = f.MicroDollarsPerHour
	}
	return found, nil
}

// errUnpriced says which flavors have no price, or returns nil. A fleet with such
// flavors is refused: a choice between machines of which some have no price would not
// be the cheapest, and nobody would know.
func errUnpriced(flavors []provider.Flavor, prices map[string]price) error {
	var names []string
	for i := range flavors {
		if f := &flavors[i]; f.Problem == "" && !prices[f.Name].known {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	more := ""
	if len(names) > 10 {
		more = fmt.Sprintf(" and %d more", len(names)-10)
		names = names[:10]
	}
	return errors.New("no price is known for " + strings.Join(names, ", ") + more + ": set the annotation " +
		v1alpha1.AnnotationPricePerHour + " on the MachineDeployment, or list it in spec.pricing.catalogue")
}
