package nodefleet

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/machines"
)

// market creates a MachineDeployment to copy in its own namespace, in which all instance types of a region
// are available.
func (b *bench) market() {
	b.Helper()
	types, err := os.ReadFile("../../../autoscaler/fleet/pricelist/aws/us-east-1.csv")
	if err != nil {
		b.Fatal(err)
	}
	spec := playground.MarketSpec{
		Name: b.name, Namespace: b.name, Types: string(types), Labels: map[string]string{benchLabel: b.name},
	}
	if err := b.site.AddMarket(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
}

// catalogue restricts a fleet to matching instance types of the price list.
func (b *bench) catalogue(instanceTypes ...string) func(*v1alpha1.NodeFleetSpec) {
	return func(s *v1alpha1.NodeFleetSpec) {
		s.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: b.name, Templates: []v1alpha1.MachineTemplate{{
			MachineDeployment: b.name, InstanceTypeField: "spec.template.spec.instanceType", InstanceTypes: instanceTypes,
		}}}
		s.Pricing.List, s.Pricing.Region = "aws", "us-east-1"
	}
}

// made returns the objects of one kind that were created for a fleet, by name.
func (b *bench) made(fleet, group, kind string) []unstructured.Unstructured {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(group)
	list.SetKind(kind + "List")
	b.list(list, client.InNamespace(b.name), client.MatchingLabels{v1alpha1.LabelFleet: b.name + "-" + fleet})
	return list.Items
}

func (b *bench) madeDeployments(fleet string) []unstructured.Unstructured {
	return b.made(fleet, "cluster.x-k8s.io/v1beta2", "MachineDeployment")
}

func TestAFleetBuysFromAWholeCatalogue(t *testing.T) {
	t.Parallel()
	b := newBench(t, "catalogue")
	b.market()
	b.fleet("all", b.catalogue())
	b.autoscale()
	b.pods("p", 8, "1500m", "2500Mi")
	b.run(8)
	// Eight such pods need 12 CPUs: the cheapest instance types that hold them have two GiB for each CPU.
	for _, n := range b.nodes() {
		if n.Labels[v1alpha1.LabelMachineType] == "" || n.Labels[corev1.LabelArchStable] != "amd64" {
			t.Errorf("node %s has the labels %v", n.Name, n.Labels)
		}
	}
	if n := len(b.madeDeployments("all")); n == 0 || n > 4 {
		t.Errorf("%d MachineDeployments were made for eight pods", n)
	}
	fleet := b.get("all")
	if machines := int(fleet.Status.Machines); machines != len(b.nodes()) {
		t.Errorf("the status has %d machines, and there are %d nodes", machines, len(b.nodes()))
	}
	for _, f := range fleet.Status.Flavors {
		if f.Machines > 0 && (f.PricePerHour == "" || f.PriceSource != "List") {
			t.Errorf("flavor %s costs %q by %q", f.Name, f.PricePerHour, f.PriceSource)
		}
	}

	b.removePods()
	b.becomes(map[string]int{})
	b.eventually("the MachineDeployments are removed", func() string {
		if left := b.madeDeployments("all"); len(left) > 0 {
			return fmt.Sprint(len(left), " are left")
		}
		return ""
	})
	b.pods("q", 1, "1500m", "2500Mi")
	b.run(1)
}

func TestAnInstanceTypeThatCannotBeHadIsLeftOutForAWhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, "soldout")
	b.market()
	var market corev1.ConfigMap
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.name, Name: machines.Market}, &market); err != nil {
		t.Fatal(err)
	}
	market.Data[machines.MarketSoldOut] = "c7i.large/z1\n"
	if err := b.Update(t.Context(), &market); err != nil {
		t.Fatal(err)
	}
	b.fleet("all", b.catalogue("c7i.large", "m7i.large"), func(s *v1alpha1.NodeFleetSpec) {
		s.ClusterAPI.Templates[0].FailureDomains = []string{"z1"}
	})
	b.autoscale()
	b.pods("p", 1, "1500m", "2500Mi")
	b.run(1)
	if diff := cmp.Diff(map[string]int{"m7i.large": 1}, b.count()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	message := b.has("all", v1alpha1.FleetDegraded, metav1.ConditionTrue, "MachinesNotReady")
	if !strings.Contains(message, "c7i-large") {
		t.Errorf("what is left unchanged: %q", message)
	}
	b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.ClusterAPI.Templates[0].FailureDomains = []string{"z1", "z2"} })
	b.eventually("the fleet knows both zones", func() string { // a pod may be observed before the change
		f := b.get("all")
		return cmp.Diff(f.Generation, f.Status.ObservedGeneration)
	})
	b.pods("q", 1, "1500m", "2500Mi")
	b.run(2)
	for _, n := range b.nodes() {
		if zone := n.Labels[corev1.LabelTopologyZone]; n.Labels[corev1.LabelInstanceTypeStable] == "c7i.large" && zone != "z2" {
			t.Errorf("a machine is in zone %q, in which it cannot be had", zone)
		}
	}
	if b.count()["c7i.large"] != 1 {
		t.Errorf("the nodes are %v", b.count())
	}
}

func TestAFleetWhoseTemplateCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, "badcopy")
	b.market()
	b.fleet("first", b.catalogue("c7i.*"))
	b.autoscale()
	b.has("first", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	for _, tc := range []struct {
		fleet, reason, want string
		change              func(*v1alpha1.NodeFleetSpec)
	}{
		{"taken", "TemplateInUse", "is already a template of NodeFleet badcopy-first", func(*v1alpha1.NodeFleetSpec) {}},
		{"none", "TemplateMissing", "MachineDeployment badcopy/none does not exist", func(s *v1alpha1.NodeFleetSpec) { s.ClusterAPI.Templates[0].MachineDeployment = "none" }},
	} {
		b.fleet(tc.fleet, b.catalogue("c7i.*"), tc.change)
		message := b.has(tc.fleet, v1alpha1.FleetReady, metav1.ConditionFalse, tc.reason)
		if !strings.Contains(message, tc.want) {
			t.Errorf("it is refused with %q, want %q in it", message, tc.want)
		}
		b.has(tc.fleet, v1alpha1.FleetDegraded, metav1.ConditionTrue, tc.reason)
	}
	for _, tc := range []struct {
		reason, want string
		change       func(*v1alpha1.NodeFleetSpec)
	}{
		{"InstanceTypeFieldMissing", "has no text in spec.template.spec.flavor", func(s *v1alpha1.NodeFleetSpec) {
			s.ClusterAPI.Templates[0].InstanceTypeField = "spec.template.spec.flavor"
		}},
		{"InstanceTypeFieldUnknown", "is required for KwokMachineTemplate", func(s *v1alpha1.NodeFleetSpec) { s.ClusterAPI.Templates[0].InstanceTypeField = "" }},
		{"InstanceTypesUnknown", "no instance type that matches c77i.*", func(s *v1alpha1.NodeFleetSpec) {
			s.ClusterAPI.Templates[0].InstanceTypeField, s.ClusterAPI.Templates[0].InstanceTypes = "spec.template.spec.instanceType", []string{"c77i.*"}
		}},
		{"PriceListUnknown", "must be one of us-east-1", func(s *v1alpha1.NodeFleetSpec) { s.Pricing.Region = "eu-west-1" }},
	} {
		b.change("first", tc.change)
		if message := b.has("first", v1alpha1.FleetReady, metav1.ConditionFalse, tc.reason); !strings.Contains(message, tc.want) {
			t.Errorf("it is refused with %q, want %q in it", message, tc.want)
		}
	}
	if made := len(b.madeDeployments("first")) + len(b.made("first", machines.GroupVersion.String(), "KwokMachineTemplate")); made > 0 {
		t.Errorf("%d objects were made", made)
	}
}
