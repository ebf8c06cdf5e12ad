package nodefleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// comesAfter sets the acquisition lag of a flavor.
func comesAfter(lag time.Duration) func(*spec) {
	return func(s *spec) { s.AcquisitionLag = lag }
}

func TestAPriceThatChangesWhileMachinesAreOnOrderCountsForTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t, "reprice")
	b.flavor("a", "2", "4Gi", "0.10", comesAfter(8*time.Second))
	b.flavor("c", "2", "4Gi", "0.20")
	highest := b.highest()
	b.fleet("all")
	b.autoscale()
	b.pods("first", 1, "1900m", "1Gi")
	b.Eventually("a machine is on order", func() string {
		return cmp.Diff(map[string]int{"a": 1}, b.replicas())
	})

	b.annotate("a", v1alpha1.AnnotationPricePerHour, "1.00")
	b.Eventually("the price is seen", func() string {
		return cmp.Diff("1.00", b.flavorStatus("all", "a").PricePerHour)
	})
	b.pods("second", 1, "1900m", "1Gi")
	b.Runs(2)
	b.becomes(map[string]int{"a": 1, "c": 1})
	if each, _ := highest(); !cmp.Equal(map[string]int{"a": 1, "c": 1}, each) {
		t.Errorf("more machines than needed: %v", each)
	}
	b.Eventually("the bill is at the new price", func() string {
		return cmp.Diff("1.20", b.get("all").Status.Cost.DollarsPerHour)
	})
}

func TestAFlavorWithoutAPriceIsNotBoughtAndSaidSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, "unpriced")
	b.flavor("a", "2", "4Gi", "0.10")
	b.flavor("n", "2", "4Gi", "")
	b.fleet("all")
	b.pods("first", 1, "1900m", "1Gi")
	b.autoscale()
	message := b.has("all", v1alpha1.FleetPriced, metav1.ConditionFalse, "PriceUnknown")
	if want := "no price is known for unpriced-n, so none is bought"; !strings.Contains(message, want) {
		t.Errorf("it says %q, want %q in it", message, want)
	}
	b.becomes(map[string]int{"a": 1})
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	if note := b.event("PriceUnknown"); !strings.Contains(note, "unpriced-n") {
		t.Errorf("the Event says %q", note)
	}

	list := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "prices"},
		Data:       map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\nm,2,4,0.05\nn,2,4,free\n"},
	}
	b.change("all", func(s *v1alpha1.NodeFleetSpec) {
		s.Pricing.Catalogue = &v1alpha1.PriceCatalogue{Namespace: b.Space, Name: "prices", Key: "flavors.csv"}
	})
	message = b.has("all", v1alpha1.FleetPriced, metav1.ConditionFalse, "CatalogueUnreadable")
	if want := `ConfigMap unpriced/prices: configmaps "prices" not found`; !strings.Contains(message, want) {
		t.Errorf("it says %q, want %q in it", message, want)
	}
	b.pods("second", 1, "1900m", "1Gi")
	b.wait(1)
	b.Make(list)
	b.Eventually("the bad line is named", func() string {
		message = b.has("all", v1alpha1.FleetPriced, metav1.ConditionFalse, "CatalogueUnreadable")
		if want := `flavors.csv:3: price_per_hour: "free"`; !strings.Contains(message, want) {
			return message
		}
		return ""
	})
	b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, "CatalogueUnreadable")
	if diff := cmp.Diff(map[string]int{"a": 1}, b.replicas()); diff != "" {
		t.Errorf("machines are bought although the catalogue cannot be read (-want +got):\n%s", diff)
	}

	list.Data["flavors.csv"] = "name,cpu,memory_gib,price_per_hour\nn,2,4,0.05\n"
	testapi.Update(t, b, list)
	b.has("all", v1alpha1.FleetPriced, metav1.ConditionTrue, "PricesKnown")
	b.Runs(2)
	b.becomes(map[string]int{"a": 1, "n": 1})
	if s := b.flavorStatus("all", "n"); s.PricePerHour != "0.05" || s.PriceSource != "Catalogue" {
		t.Errorf("flavor n costs %s by %s, want 0.05 by the catalogue", s.PricePerHour, s.PriceSource)
	}
	if s := b.flavorStatus("all", "a"); s.PricePerHour != "0.10" || s.PriceSource != "Annotation" {
		t.Errorf("flavor a costs %s by %s, want 0.10 by its annotation", s.PricePerHour, s.PriceSource)
	}
	b.annotate("a", v1alpha1.AnnotationPricePerHour, "null")
	message = b.has("all", v1alpha1.FleetPriced, metav1.ConditionFalse, "PriceUnknown")
	if want := "no price is known for unpriced-a"; !strings.Contains(message, want) {
		t.Errorf("it says %q, want %q in it", message, want)
	}
}
