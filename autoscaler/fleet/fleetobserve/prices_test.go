package fleetobserve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

func TestPricesAreThoseOfTheProviderThenOfTheCatalogue(t *testing.T) {
	known := &Prices{}
	known.add([]catalogue.Flavor{{Flavor: cluster.Flavor{Name: "listed", MicroDollarsPerHour: 3}}, {Flavor: cluster.Flavor{Name: "m5.large", MicroDollarsPerHour: 97_000}}}, "List")
	known.add([]catalogue.Flavor{{Flavor: cluster.Flavor{Name: "m5.large", MicroDollarsPerHour: 96_000}}, {Flavor: cluster.Flavor{Name: "small", MicroDollarsPerHour: 50_000}}, {Flavor: cluster.Flavor{Name: "free"}}}, "Catalogue")
	flavors := []provider.Flavor{
		{Name: "small", HasPrice: true, MicroDollarsPerHour: 7},
		{Name: "a", InstanceType: "m5.large"},
		{Name: "free", InstanceType: "unlisted"},
		{Name: "b", InstanceType: "unlisted"},
		{Name: "gift", HasPrice: true},
		{Name: "c", InstanceType: "listed"},
		{Name: "d", InstanceType: "m5.large", PricedAs: "small"},
		{Name: "spot", InstanceType: "m5.large", PricedAs: "m5.large/spot"},
	}
	want := map[string]Price{
		"small": {7, "Annotation", true, 0}, "a": {96_000, "Catalogue", true, 0}, "free": {0, "Catalogue", true, 0}, "b": {}, "gift": {0, "Annotation", true, 0}, "c": {3, "List", true, 0},
		"d": {50_000, "Catalogue", true, 0}, "spot": {},
	}
	if diff := cmp.Diff(want, pricesOf(flavors, known, 50_000)); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	var names []string
	for _, f := range known.Types() {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"free", "listed", "m5.large", "small"}, names); diff != "" {
		t.Errorf("instance types (-want +got):\n%s", diff)
	}
	if got := pricesOf(flavors, &Prices{}, 50_000)["a"]; got.Known {
		t.Errorf("without a catalogue the price is %+v", got)
	}
}

// TestOnlySpotMachinesAreInterrupted: the row of an instance type may also be that of machines on demand.
func TestOnlySpotMachinesAreInterrupted(t *testing.T) {
	known := &Prices{}
	known.add([]catalogue.Flavor{{Flavor: cluster.Flavor{Name: "m5.large", MicroDollarsPerHour: 96_000, Interruptions: 120_000}}, {Flavor: cluster.Flavor{Name: "small", MicroDollarsPerHour: 50_000}}}, "Catalogue")
	sold := func(name, instanceType, capacityType string) provider.Flavor {
		return provider.Flavor{Name: name, InstanceType: instanceType, Labels: map[string]string{"karpenter.sh/capacity-type": capacityType}}
	}
	stated := sold("annotated", "m5.large", "spot")
	stated.HasPrice, stated.MicroDollarsPerHour = true, 30_000
	got := pricesOf([]provider.Flavor{sold("a", "m5.large", "spot"), sold("b", "m5.large", "on-demand"), sold("c", "small", "spot"), sold("d", "small", "reserved"), stated}, known, 50_000)
	want := map[string]Price{
		"a": {96_000, "Catalogue", true, 120_000}, "b": {96_000, "Catalogue", true, 0}, "c": {50_000, "Catalogue", true, 50_000}, "d": {50_000, "Catalogue", true, 0},
		"annotated": {30_000, "Annotation", true, 120_000},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
}

func TestFlavorsWithoutAPriceAreNotBought(t *testing.T) {
	none := map[string]Price{"c": {1, fromAnnotation, true, 0}}
	if text := withoutPrices([]provider.Flavor{{Name: "c"}, {Name: "broken", Problem: "it is"}}, none, &fleetNamed("f").Spec); text != "" {
		t.Errorf("all that can be bought have prices: %v", text)
	}
	flavors := []provider.Flavor{{Name: "b"}, {Name: "a"}, {Name: "c"}}
	text := withoutPrices(flavors, none, &fleetNamed("f").Spec)
	if !strings.Contains(text, "for a, b, so none is bought: ") || !strings.Contains(text, "supercargo.dev/price-per-hour") {
		t.Errorf("it says %q", text)
	}
	if flavors[0].Problem == "" || flavors[1].Problem == "" || flavors[2].Problem != "" {
		t.Errorf("flavors are now %+v", flavors)
	}
	var many []provider.Flavor
	for i := range 13 {
		many = append(many, provider.Flavor{Name: fmt.Sprintf("f%02d", i)})
	}
	if text := withoutPrices(many, nil, &fleetNamed("f").Spec); !strings.Contains(text, "f09 and 3 more, ") || strings.Contains(text, "f10") {
		t.Errorf("it says %q", text)
	}
}

// A price in a zone is of no use while the cloud chooses the zone.
func TestAPriceInAZoneAloneSaysWhatToRequire(t *testing.T) {
	known := &Prices{}
	known.add([]catalogue.Flavor{{Flavor: cluster.Flavor{Name: "big"}}, {Flavor: cluster.Flavor{Name: "small@a"}}, {Flavor: cluster.Flavor{Name: "small@b"}}}, fromCatalogue)
	const hint = ". small@a has a price in its zone: to buy there, require the zone in spec.karpenter.requirements"
	for _, tc := range []struct {
		name   string
		flavor provider.Flavor
		hints  bool
	}{
		{"anywhere", provider.Flavor{Name: "small", InstanceType: "small", PricedAs: "small"}, true},
		{"in another zone", provider.Flavor{Name: "small@c", InstanceType: "small", PricedAs: "small", Labels: map[string]string{"topology.kubernetes.io/zone": "c"}}, false},
		{"another instance type", provider.Flavor{Name: "large", InstanceType: "large", PricedAs: "large"}, false},
		{"the last instance type of all", provider.Flavor{Name: "z", InstanceType: "z", PricedAs: "z"}, false},
		{"of another provider", provider.Flavor{Name: "small", InstanceType: "small"}, false},
	} {
		s := &Stock{Fleet: fleetNamed("f"), Inventory: &provider.Inventory{Flavors: []provider.Flavor{{Name: "big", InstanceType: "big", PricedAs: "big"}, tc.flavor}}}
		text := s.SetPrices(known)
		if !strings.HasPrefix(text, "no price is known for "+tc.flavor.Name+", so none is bought: ") || strings.HasSuffix(text, hint) != tc.hints {
			t.Errorf("%s: %q", tc.name, text)
		}
	}
}

// TestThePricingStatesWhatProvidersDoNotKnow has rows with GPUs and ephemeral storage.
func TestThePricingStatesWhatProvidersDoNotKnow(t *testing.T) {
	type amounts = map[corev1.ResourceName]int64
	known := &Prices{}
	known.add([]catalogue.Flavor{
		{Flavor: cluster.Flavor{Name: "accelerated"}, Extended: amounts{gpu: 4}, EphemeralStorage: new(int64(100))},
		{Flavor: cluster.Flavor{Name: "plain"}},
	}, fromCatalogue)
	for _, tc := range []struct {
		name   string
		flavor provider.Flavor
		want   amounts
		disk   *int64
	}{
		{"of an instance type", provider.Flavor{Name: "f", InstanceType: "accelerated"}, amounts{gpu: 4}, new(int64(100))},
		{"of a flavor", provider.Flavor{Name: "accelerated", InstanceType: "unlisted"}, amounts{gpu: 4}, new(int64(100))},
		{"what the provider knows counts", provider.Flavor{Name: "f", InstanceType: "accelerated", Extended: amounts{gpu: 2, "a.example/x": 1}, EphemeralStorage: new(int64(50))}, amounts{gpu: 2, "a.example/x": 1}, new(int64(50))},
		{"what it presumes does not", provider.Flavor{Name: "f", InstanceType: "accelerated", Extended: amounts{"amd.com/gpu": 2}, EphemeralStorage: new(int64(50)), Presumed: true}, amounts{gpu: 4}, new(int64(100))},
		{"unless nothing is stated", provider.Flavor{Name: "f", InstanceType: "plain", Extended: amounts{"amd.com/gpu": 2}, EphemeralStorage: new(int64(50)), Presumed: true}, amounts{"amd.com/gpu": 2}, new(int64(50))},
		{"of nothing", provider.Flavor{Name: "f", InstanceType: "unlisted"}, nil, nil},
		{"of a provider that has read its row", provider.Flavor{Name: "f", InstanceType: "accelerated", PricedAs: "accelerated"}, nil, nil},
	} {
		s := &Stock{Fleet: fleetNamed("f"), Inventory: &provider.Inventory{Flavors: []provider.Flavor{tc.flavor}}}
		s.SetPrices(known)
		got := s.Inventory.Flavors[0]
		if diff := cmp.Diff(tc.want, got.Extended) + cmp.Diff(tc.disk, got.EphemeralStorage); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if row := known.row("accelerated"); len(row.Extended) != 1 || row.Extended[gpu] != 4 {
		t.Errorf("the pricing itself has changed: %v", row.Extended)
	}
}
