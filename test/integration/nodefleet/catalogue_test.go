package nodefleet

import (
	"fmt"
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
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// market creates a MachineDeployment to copy in its own namespace, in which all instance types of a region
// are available.
func (b *bench) market() {
	b.Helper()
	types := testfile.Read(b, "../../../autoscaler/fleet/pricelist/aws/us-east-1.csv")
	spec := playground.MarketSpec{
		Name: b.Space, Namespace: b.Space, Types: string(types), Labels: map[string]string{kit.BenchLabel: b.Space},
	}
	if err := b.Site.AddMarket(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
}

// catalogue restricts a fleet to matching instance types of the price list.
func (b *bench) catalogue(instanceTypes ...string) func(*v1alpha1.NodeFleetSpec) {
	return func(s *v1alpha1.NodeFleetSpec) {
		s.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: b.Space, Templates: []v1alpha1.MachineTemplate{{
			MachineDeployment: b.Space, InstanceTypeField: "spec.template.spec.instanceType", InstanceTypes: instanceTypes,
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
	testapi.List(b, b, list, client.InNamespace(b.Space), client.MatchingLabels{v1alpha1.LabelFleet: b.Space + "-" + fleet})
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
	b.Runs(8)
	// Eight such pods need 12 CPUs: the cheapest instance types that hold them have two GiB for each CPU.
	for _, n := range b.Nodes() {
		if n.Labels[v1alpha1.LabelMachineType] == "" || n.Labels[corev1.LabelArchStable] != "amd64" {
			t.Errorf("node %s has the labels %v", n.Name, n.Labels)
		}
	}
	if n := len(b.madeDeployments("all")); n == 0 || n > 4 {
		t.Errorf("%d MachineDeployments were made for eight pods", n)
	}
	fleet := b.get("all")
	if machines := int(fleet.Status.Machines); machines != len(b.Nodes()) {
		t.Errorf("the status has %d machines, and there are %d nodes", machines, len(b.Nodes()))
	}
	for _, f := range fleet.Status.Flavors {
		if f.Machines > 0 && (f.PricePerHour == "" || f.PriceSource != "List") {
			t.Errorf("flavor %s costs %q by %q", f.Name, f.PricePerHour, f.PriceSource)
		}
	}

	b.removePods()
	b.becomes(map[string]int{})
	b.Eventually("the MachineDeployments are removed", func() string {
		if left := b.madeDeployments("all"); len(left) > 0 {
			return fmt.Sprint(len(left), " are left")
		}
		return ""
	})
	b.pods("q", 1, "1500m", "2500Mi")
	b.Runs(1)
}

func TestAnInstanceTypeThatCannotBeHadIsLeftOutForAWhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, "soldout")
	b.market()
	var market corev1.ConfigMap
	testapi.Get(t, b, client.ObjectKey{Namespace: b.Space, Name: machines.Market}, &market)
	market.Data[machines.MarketSoldOut] = "c7i.large/z1\n"
	testapi.Update(t, b, &market)
	b.fleet("all", b.catalogue("c7i.large", "m7i.large"), func(s *v1alpha1.NodeFleetSpec) {
		s.ClusterAPI.Templates[0].FailureDomains = []string{"z1"}
	})
	b.autoscale()
	b.pods("p", 1, "1500m", "2500Mi")
	b.Runs(1)
	if diff := cmp.Diff(map[string]int{"m7i.large": 1}, b.count()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	message := b.has("all", v1alpha1.FleetDegraded, metav1.ConditionTrue, "MachinesNotReady")
	if !strings.Contains(message, "c7i-large") {
		t.Errorf("what is left unchanged: %q", message)
	}
	b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.ClusterAPI.Templates[0].FailureDomains = []string{"z1", "z2"} })
	b.Eventually("the fleet knows both zones", func() string { // a pod may be observed before the change
		f := b.get("all")
		return cmp.Diff(f.Generation, f.Status.ObservedGeneration)
	})
	b.pods("q", 1, "1500m", "2500Mi")
	b.Runs(2)
	for _, n := range b.Nodes() {
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
