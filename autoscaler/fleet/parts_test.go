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
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
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
	}
	want := map[string]price{
		"small": {7, "Annotation", true}, "a": {96_000, "Catalogue", true}, "free": {0, "Catalogue", true}, "b": {}, "gift": {0, "Annotation", true}, "c": {3, "List", true},
	}
	if diff := cmp.Diff(want, pricesOf(flavors, known), cmp.AllowUnexported(price{})); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	var names []string
	for _, f := range known.Types() {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"free", "listed", "m5.large", "small"}, names); diff != "" {
		t.Errorf("instance types (-want +got):\n%s", diff)
	}
	if got := pricesOf(flavors, &Prices{})["a"]; got.known {
		t.Errorf("without a catalogue the price is %+v", got)
	}
}

func TestFlavorsWithoutAPriceAreNotBought(t *testing.T) {
	none := map[string]price{"c": {1, fromAnnotation, true}}
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
		removeClaimed(s, claimed)
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

func TestATemplateBelongsToTheOldestFleetThatNamesIt(t *testing.T) {
	with := func(name, namespace string, templates ...string) v1alpha1.NodeFleet {
		f := fleetNamed(name)
		f.Spec.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: namespace}
		for _, template := range templates {
			f.Spec.ClusterAPI.Templates = append(f.Spec.ClusterAPI.Templates, v1alpha1.MachineTemplate{MachineDeployment: template})
		}
		return *f
	}
	fleets := []v1alpha1.NodeFleet{with("old", "x", "a", "b"), with("young", "x", "c", "b"), with("apart", "y", "b"), with("named", "x")}
	for i, want := range []string{"", "MachineDeployment x/b is already a template of NodeFleet old", "", ""} {
		err := templatesTaken(&fleets[i], fleets)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("fleet %s: %v, want %q", fleets[i].Name, err, want)
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

// budgetOf is a PodDisruptionBudget that allows no more disruptions.
func budgetOf(labels map[string]string) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
}

func TestTextsAreClippedAtRunes(t *testing.T) {
	if got := clip.Bytes(strings.Repeat("a", 1024), conditions.MaxMessage); len(got) != 1024 || strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes that fit became %d", 1024, len(got))
	}
	if got := clip.Bytes(strings.Repeat("ä", 600), conditions.MaxMessage); len(got) > 1024 || !strings.HasSuffix(got, "ä…") || strings.Contains(got, "\uFFFD") {
		t.Errorf("it ends in %q", got[len(got)-8:])
	}
}
