package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

func TestPricesAreThoseOfTheProviderThenOfTheCatalogue(t *testing.T) {
	catalogue := map[string]int64{"m5.large": 96_000, "small": 50_000, "free": 0}
	flavors := []provider.Flavor{
		{Name: "small", HasPrice: true, MicroDollarsPerHour: 7},
		{Name: "a", InstanceType: "m5.large"},
		{Name: "free", InstanceType: "unlisted"},
		{Name: "b", InstanceType: "unlisted"},
		{Name: "gift", HasPrice: true},
	}
	want := map[string]price{
		"small": {7, "Annotation", true}, "a": {96_000, "Catalogue", true}, "free": {0, "Catalogue", true}, "b": {}, "gift": {0, "Annotation", true},
	}
	if diff := cmp.Diff(want, pricesOf(flavors, catalogue), cmp.AllowUnexported(price{})); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if got := pricesOf(flavors, nil)["a"]; got.known {
		t.Errorf("without a catalogue the price is %+v", got)
	}
}

func TestAFleetIsRefusedWhileAFlavorHasNoPrice(t *testing.T) {
	none := map[string]price{"c": {1, fromAnnotation, true}}
	if err := errUnpriced([]provider.Flavor{{Name: "c"}, {Name: "broken", Problem: "it is"}}, none); err != nil {
		t.Errorf("all that can be bought have prices: %v", err)
	}
	err := errUnpriced([]provider.Flavor{{Name: "b"}, {Name: "a"}, {Name: "c"}}, none)
	if err == nil || !strings.Contains(err.Error(), "for a, b: ") || !strings.Contains(err.Error(), "supercargo.dev/price-per-hour") {
		t.Errorf("the refusal is %v", err)
	}
	var many []provider.Flavor
	for i := range 13 {
		many = append(many, provider.Flavor{Name: fmt.Sprintf("f%02d", i)})
	}
	if err := errUnpriced(many, nil); err == nil || !strings.Contains(err.Error(), "f09 and 3 more: ") || strings.Contains(err.Error(), "f10") {
		t.Errorf("the refusal is %v", err)
	}
}

func TestAMachineDeploymentBelongsToTheFirstFleetThatNamesIt(t *testing.T) {
	holding := func(fleet, namespace string, flavors ...string) *stock {
		f := fleetNamed(fleet)
		f.Spec.ClusterAPI.Namespace = namespace
		s := &stock{fleet: f, inventory: &provider.Inventory{}}
		for _, name := range flavors {
			s.inventory.Flavors = append(s.inventory.Flavors, provider.Flavor{Name: name, Want: 1})
			s.inventory.Machines = append(s.inventory.Machines, provider.Machine{Name: "m-" + name, Flavor: name})
		}
		return s
	}
	claimed := map[string]string{}
	first, second, apart := holding("f", "x", "a", "b"), holding("g", "x", "b", "c"), holding("h", "y", "b")
	for _, s := range []*stock{first, second, apart} {
		disclaim(s, claimed)
	}
	if got := second.inventory.Flavors; !strings.Contains(got[0].Problem, "NodeFleet f") || got[0].Want != 0 || got[1].Problem != "" {
		t.Errorf("the second has %+v", got)
	}
	if got := second.inventory.Machines; len(got) != 1 || got[0].Name != "m-c" {
		t.Errorf("the second has the machines %+v", got)
	}
	for _, s := range []*stock{first, apart} {
		for _, f := range s.inventory.Flavors {
			if f.Problem != "" || len(s.inventory.Machines) != len(s.inventory.Flavors) {
				t.Errorf("fleet %s: %+v", s.fleet.Name, f)
			}
		}
	}
}

func TestOlderFleetsComeFirst(t *testing.T) {
	old, young := fleetNamed("z"), fleetNamed("a")
	young.CreationTimestamp = metav1.NewTime(epoch)
	twin := fleetNamed("b")
	fleets := []v1alpha1.NodeFleet{*young, *old, *twin}
	slices.SortFunc(fleets, seniority)
	if fleets[0].Name != "b" || fleets[1].Name != "z" || fleets[2].Name != "a" {
		t.Errorf("the order is %s, %s, %s", fleets[0].Name, fleets[1].Name, fleets[2].Name)
	}
}

// budgetOf is a PodDisruptionBudget that is spent.
func budgetOf(labels map[string]string) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
}

func TestTextsAreClippedAtRunes(t *testing.T) {
	if got := clip(strings.Repeat("a", 1024)); len(got) != 1024 || strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes that fit became %d", 1024, len(got))
	}
	if got := clip(strings.Repeat("ä", 600)); len(got) > 1024 || !strings.HasSuffix(got, "ä…") || strings.Contains(got, "\uFFFD") {
		t.Errorf("it ends in %q", got[len(got)-8:])
	}
}
