package auditor

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/test/fixtures"
)

// observedWith returns the input of an audit of nodes with a pod on the first.
func observedWith(t *testing.T, options Options, nodes ...corev1.Node) *audit.Input {
	t.Helper()
	options.Now = now
	seen, err := Of(t.Context(), &objects.Objects{Nodes: nodes, Pods: []corev1.Pod{podOf("p", nodes[0].Name)}}, options)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func flavorOf(in *audit.Input, instanceType string) *audit.Flavor {
	for i := range in.Flavors {
		if in.Flavors[i].InstanceType == instanceType {
			return &in.Flavors[i]
		}
	}
	return nil
}

func hasPart(all []string, part string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, part) })
}

func TestADiscountOfACapacityTypeLowersListPrices(t *testing.T) {
	asSpot := label("karpenter.sh/capacity-type", "spot")
	annotated := func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationPricePerHour] = "0.5" }
	both := map[string]float64{audit.OnDemand: 0.25, audit.Spot: 0.5}
	for _, tc := range []struct {
		name      string
		discounts map[string]float64
		node      corev1.Node
		price     int64
		priced    bool
	}{
		{"on demand", both, fixtures.CloudNode("n", "m5.xlarge"), 144_000, true},
		{"spot, off the price on demand", both, fixtures.CloudNode("n", "m5.xlarge", asSpot), 96_000, true},
		{"spot with a discount for on demand alone", map[string]float64{audit.OnDemand: 0.25}, fixtures.CloudNode("n", "m5.xlarge", asSpot), 0, false},
		{"an annotation", both, fixtures.CloudNode("n", "m5.xlarge", annotated), 500_000, true},
		{"a price of the user", both, fixtures.CloudNode("n", "own.large"), 100_000, true},
		{"spot of a type that the user prices on demand alone", both, fixtures.CloudNode("n", "own.large", asSpot), 50_000, true},
		{"spot of a type whose price as spot the user states", both, fixtures.CloudNode("n", "both.large", asSpot), 30_000, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			own := []catalogue.Price{priceOf("own.large", 100_000, nil), priceOf("both.large", 100_000, new(int64(30_000)))}
			n := observedWith(t, Options{Pricing: Pricing{Own: own, Discounts: tc.discounts}}, tc.node).Nodes[0]
			if n.MicroDollarsPerHour != tc.price || (n.Unpriced == "") != tc.priced {
				t.Errorf("%d (%q), want %d", n.MicroDollarsPerHour, n.Unpriced, tc.price)
			}
		})
	}
}

func TestMachinesForSaleCostLessByTheDiscountOfTheirCapacityType(t *testing.T) {
	seen := observedWith(t, Options{Pricing: Pricing{Discounts: map[string]float64{audit.OnDemand: 0.25, audit.Spot: 0.5}}},
		fixtures.CloudNode("a", "m5.xlarge"), fixtures.CloudNode("b", "m5.2xlarge", label("karpenter.sh/capacity-type", "spot")))
	got := map[string][]int64{}
	for _, f := range seen.Flavors {
		if f.InstanceType == "m5.large" || f.InstanceType == "c6a.large" { // $0.0765, of which no node is one
			got[f.InstanceType+" "+f.CapacityType] = append(got[f.InstanceType+" "+f.CapacityType], f.MicroDollarsPerHour)
		}
	}
	for name, price := range map[string]int64{"c6a.large on-demand": 57_375, "c6a.large spot": 38_250} {
		if !slices.Contains(got[name], price) {
			t.Errorf("%s costs %v, want %d", name, got[name], price)
		}
	}
	if !hasPart(seen.Pricing, "Spot machines without a price of their own cost 50 % less") || !hasPart(seen.Pricing, "On-demand machines with a list price cost 25 % less") {
		t.Errorf("the discounts are not named: %q", seen.Pricing)
	}
}

func TestNodesOfARegionWithoutAListAreNamedFirstAndARegionCanBeSelected(t *testing.T) {
	ireland := label(corev1.LabelTopologyRegion, "eu-west-1")
	seen := observedWith(t, Options{}, fixtures.CloudNode("a", "m5.xlarge", ireland), fixtures.CloudNode("b", "m5.xlarge", ireland))
	if !hasPart(seen.Pricing[:2], "No list prices of aws in eu-west-1 are included: 2 nodes there have those of us-east-1") {
		t.Errorf("%q", seen.Pricing)
	}
	on := func(n *corev1.Node) {
		n.Labels[corev1.LabelTopologyRegion], n.Spec.ProviderID = "eastus", "azure:///x"
	}
	for region, want := range map[string]string{"": "eastus", "westeurope": "westeurope"} {
		seen := observedWith(t, Options{Pricing: Pricing{Region: region}}, fixtures.CloudNode("n", "Standard_D4s_v5", on))
		types, err := pricelist.Read("azure", want)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(types, func(f catalogue.Flavor) bool { return f.Name == "Standard_D4s_v5" })
		if seen.Nodes[0].MicroDollarsPerHour != types[at].MicroDollarsPerHour || hasPart(seen.Pricing, "as --region states") != (region != "") {
			t.Errorf("--region %q: %d, %q; want %d of %s", region, seen.Nodes[0].MicroDollarsPerHour, seen.Pricing, types[at].MicroDollarsPerHour, want)
		}
	}
}

func TestARegionOfAnotherProviderIsSaidToSelectNothing(t *testing.T) {
	const said = "--region westeurope selects no prices: no node that has a list price is of its cloud provider."
	aws := fixtures.CloudNode("a", "m5.xlarge")
	for _, tc := range []struct {
		region string
		nodes  []corev1.Node
		says   bool
	}{
		{"westeurope", []corev1.Node{aws}, true},
		{"us-east-1", []corev1.Node{aws}, false},
		{"", []corev1.Node{aws}, false},
		{"westeurope", []corev1.Node{aws, fixtures.CloudNode("b", "Standard_D4s_v5", func(n *corev1.Node) { n.Spec.ProviderID = "azure:///x" })}, false},
	} {
		if seen := observedWith(t, Options{Pricing: Pricing{Region: tc.region}}, tc.nodes...); slices.Contains(seen.Pricing, said) != tc.says {
			t.Errorf("--region %q of %d nodes: %q", tc.region, len(tc.nodes), seen.Pricing)
		}
	}
}

func TestAMachineOfAnOwnPriceHasTheRoomThatPodsCanUse(t *testing.T) {
	known := func(name string) packing.Size {
		types, err := pricelist.Read("aws", "us-east-1")
		if err != nil {
			t.Fatal(err)
		}
		return types[slices.IndexFunc(types, func(f catalogue.Flavor) bool { return f.Name == name })].Size
	}
	sized := func(name string, cpu, gib int64) catalogue.Price {
		price := int64(5_000) // less than the node's, which could replace it
		if name == "own.node" {
			price = 10_000
		}
		return catalogue.Price{Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Name: name, MicroDollarsPerHour: price, Size: packing.Size{MilliCPU: 1000 * cpu, MemoryBytes: gib << 30}}}}
	}
	for _, tc := range []struct {
		name string
		own  catalogue.Price
		want packing.Size // empty: not for sale
	}{
		{"name and price alone: that of the list", sized("m7i.large", 0, 0), known("m7i.large")},
		{"the size in name: that of the list, which is less", sized("m7i.large", 2, 8), known("m7i.large")},
		{"a smaller size: as stated", sized("m7i.large", 1, 4), packing.Size{MilliCPU: 1000, MemoryBytes: 4 << 30}},
		{"a type that no list has: as stated", sized("own.big", 2, 8), packing.Size{MilliCPU: 2000, MemoryBytes: 8 << 30}},
		{"a type that no list has, without a size", sized("own.big", 0, 0), packing.Size{}},
		{"a type of a node: that of the node", sized("own.node", 0, 0), packing.Size{MilliCPU: 3920, MemoryBytes: 14 << 30}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			own := []catalogue.Price{tc.own, sized("own.node", 0, 0)}
			if tc.own.Name == "own.node" {
				own = own[:1]
			}
			seen := observedWith(t, Options{Pricing: Pricing{Own: own}}, fixtures.CloudNode("n", "own.node"))
			var got packing.Size
			if f := flavorOf(seen, tc.own.Name); f != nil {
				got = f.Size
			}
			if got != tc.want {
				t.Errorf("room %+v, want %+v", got, tc.want)
			}
			if nominal := hasPart(seen.Pricing, "pods can use less than the size given, such as m7i.large"); nominal != (tc.own.Size.MilliCPU == 2000 && tc.own.Name == "m7i.large") {
				t.Errorf("%q", seen.Pricing)
			}
		})
	}
}

func TestANodeWithoutAnInstanceTypeIsPricedByCPUAndMemoryOnRequestAndNeverFree(t *testing.T) {
	bare := func(n *corev1.Node) {
		delete(n.Labels, corev1.LabelInstanceTypeStable)
		n.Spec.ProviderID = ""
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi")}
	}
	seen := observedWith(t, Options{}, fixtures.CloudNode("n", "", bare))
	if seen.Nodes[0].Unpriced == "" || !hasPart(seen.Pricing, "1 node has no instance type: --default-price-per-cpu-hour") || len(seen.Flavors) > 0 {
		t.Errorf("%q, %q, %d for sale; want no price and what would set one", seen.Nodes[0].Unpriced, seen.Pricing, len(seen.Flavors))
	}
	seen = observedWith(t, Options{Pricing: Pricing{PerCPU: 30_000, PerGiB: 4_000}}, fixtures.CloudNode("n", "", bare))
	if n := seen.Nodes[0]; n.MicroDollarsPerHour != 4*30_000+16*4_000 || n.InstanceType != "4cpu-16gib" {
		t.Errorf("%d for %s, want 184000 for 4cpu-16gib", n.MicroDollarsPerHour, n.InstanceType)
	}
	if f := flavorOf(seen, "4cpu-16gib"); f == nil || f.Size.MilliCPU != 3920 || f.Host.Labels[corev1.LabelInstanceTypeStable] != "" {
		t.Errorf("for sale is %+v, want a machine like the node, without the label that the node does not have", f)
	}
	// A price that is known goes before the default.
	if n := observedWith(t, Options{Pricing: Pricing{PerCPU: 30_000}}, fixtures.CloudNode("n", "", label("type", "virtual-kubelet"))).Nodes[0]; n.Unpriced == "" {
		t.Errorf("the size of a virtual node is priced: $%d", n.MicroDollarsPerHour)
	}
	if n := observedWith(t, Options{Pricing: Pricing{PerCPU: 30_000}}, fixtures.CloudNode("n", "m5.xlarge")).Nodes[0]; n.MicroDollarsPerHour != 192_000 {
		t.Errorf("m5.xlarge costs %d, want its list price", n.MicroDollarsPerHour)
	}
}

func TestTypesThatAreNoNodesAreNotForSaleUnlessTheyAreNamedOrThere(t *testing.T) {
	on := func(n *corev1.Node) {
		n.Labels[corev1.LabelTopologyRegion], n.Spec.ProviderID = "eastus", "azure:///x"
	}
	for _, tc := range []struct {
		name     string
		node     corev1.Node
		patterns []string
		forSale  map[string]bool
	}{
		{"AKS", fixtures.CloudNode("n", "Standard_D4s_v5", on), []string{"*"}, map[string]bool{"Standard_A0": false, "Standard_F1": false, "Standard_D2s_v5": true}},
		{"AKS, named", fixtures.CloudNode("n", "Standard_D4s_v5", on), []string{"Standard_A0"}, map[string]bool{"Standard_A0": true}},
		{"AKS, of a node", fixtures.CloudNode("n", "Standard_A1_v2", on), nil, map[string]bool{"Standard_A1_v2": true}},
		{"EKS", fixtures.CloudNode("n", "m6g.large", label(corev1.LabelArchStable, "arm64")), []string{"*"}, map[string]bool{"a1.large": false, "c6g.large": true}},
		{"EKS, the first generation", fixtures.CloudNode("n", "m5.large"), []string{"*"}, map[string]bool{"m1.small": false, "t1.micro": false, "c6a.large": true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// A label of the type keeps types for sale that others could replace.
			o := &objects.Objects{Nodes: []corev1.Node{tc.node}, Pods: []corev1.Pod{podOf("p", "n"), podOf("q", "n", func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpExists}}}},
				}}}
			})}}
			seen, err := Of(t.Context(), o, Options{Now: now, InstanceTypes: tc.patterns})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tc.forSale {
				if got := flavorOf(seen, name) != nil; got != want {
					t.Errorf("%s is for sale: %t, want %t", name, got, want)
				}
			}
		})
	}
}

func TestPodsArePlannedForArchitecturesOnWhichTheirImagesWereSeenRunning(t *testing.T) {
	arm := label(corev1.LabelArchStable, "arm64")
	image := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Image = name }
	}
	waiting := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	}
	both := []corev1.Node{fixtures.CloudNode("amd", "m5.xlarge"), fixtures.CloudNode("arm", "m6g.xlarge", arm)}
	for _, tc := range []struct {
		name  string
		nodes []corev1.Node
		pods  []corev1.Pod
		archs []string
		want  map[string]string // architecture that each pod is bound to
		sold  []string          // architectures of machines for sale
		notes string
	}{
		{"amd64 alone", both[:1], []corev1.Pod{podOf("p", "amd")}, nil, map[string]string{"shop/p": ""}, []string{"amd64"},
			"Types of arm64 are left out: the only image was seen on amd64 only. --arch arm64 includes them."},
		{"amd64 alone, and the user knows more", both[:1], []corev1.Pod{podOf("p", "amd")}, []string{"arm64"}, map[string]string{"shop/p": ""}, []string{"amd64", "arm64"}, ""},
		{"an image on both, and one on one", both, []corev1.Pod{podOf("p", "amd"), podOf("q", "arm"), podOf("x", "amd", image("x"))}, nil,
			map[string]string{"shop/p": "", "shop/q": "", "shop/x": "amd64"}, []string{"amd64", "arm64"},
			"1 of 2 images was seen on amd64 only: its pods are planned for amd64 alone. --arch with another architecture plans them for it, too."},
		{"an image that fails on one", both, []corev1.Pod{podOf("p", "amd"), podOf("q", "arm", waiting)}, nil, map[string]string{"shop/p": "amd64"}, []string{"amd64", "arm64"},
			"1 of 1 image was seen on amd64 only"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen, err := Of(t.Context(), &objects.Objects{Nodes: tc.nodes, Pods: tc.pods}, Options{Now: now, Archs: tc.archs})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range seen.Nodes {
				for _, p := range n.Pods {
					if want, is := tc.want[p.Name]; is && p.Arch != want {
						t.Errorf("%s is bound to %q, want %q", p.Name, p.Arch, want)
					}
				}
			}
			sold := map[string]bool{}
			for _, f := range seen.Flavors {
				sold[f.Arch] = true
			}
			want := map[string]bool{}
			for _, arch := range tc.sold {
				want[arch] = true
			}
			if diff := cmp.Diff(want, sold); diff != "" {
				t.Errorf("architectures for sale (-want +got):\n%s", diff)
			}
			if tc.notes != "" && !hasPart(seen.Notes, tc.notes) || tc.notes == "" && hasPart(seen.Notes, "--arch") {
				t.Errorf("notes %q, want %q", seen.Notes, tc.notes)
			}
		})
	}
}
