package karpenter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// A pricing may state prices only where a user has looked them up.
func TestAnInstanceTypeThatIsPricedInAZoneOnlyIsOffered(t *testing.T) {
	rows, err := catalogue.ReadFlavors("prices.csv", strings.NewReader(`name,cpu,memory_gib,price_per_hour
@a,1,1,0.01
big@a,8,16,0.30
big@b,8,16,0.31
big@b/spot,8,16,0.09
lone/spot,2,4,0.02
small,2,4,0.10
small@a,2,4,0.09
`))
	if err != nil {
		t.Fatal(err)
	}
	in := func(key string, values ...string) v1alpha1.KarpenterRequirement {
		return v1alpha1.KarpenterRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	zones, sold := in(corev1.LabelTopologyZone, "a", "c"), in(labelCapacityType, "on-demand", "spot")
	for _, tc := range []struct {
		name     string
		requires []v1alpha1.KarpenterRequirement
		want     map[string]string // the rows with the prices, by flavor: big and big/spot have none
	}{
		{"the cloud chooses the zone", nil, map[string]string{"big": "big", "lone": "lone", "small": "small"}},
		{"in zones", []v1alpha1.KarpenterRequirement{zones}, map[string]string{
			"big@a": "big@a", "big@c": "big", "lone@a": "lone", "lone@c": "lone", "small@a": "small@a", "small@c": "small",
		}},
		{"of capacity types", []v1alpha1.KarpenterRequirement{sold}, map[string]string{
			"big": "big", "big/spot": "big/spot", "lone": "lone", "lone/spot": "lone/spot", "small": "small", "small/spot": "small/spot",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all, err := offers(&v1alpha1.KarpenterNodes{Requirements: tc.requires}, rows)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for i := range all {
				o := &all[i]
				got[o.name] = o.pricedAs
				if cores := map[string]int64{"big": 8, "lone": 2, "small": 2}[o.of.Name]; o.of.Size.MilliCPU != cores*1000 {
					t.Errorf("%s is of instance type %q with %d millicores", o.name, o.of.Name, o.of.Size.MilliCPU)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("flavors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMachinesHaveTheGPUsOfThePricingThenOfTheNodeClaim has a NodeClaim and a node that state other amounts.
func TestMachinesHaveTheGPUsOfThePricingThenOfTheNodeClaim(t *testing.T) {
	const gpu, nic = corev1.ResourceName("nvidia.com/gpu"), corev1.ResourceName("example.com/nic")
	type amounts = map[corev1.ResourceName]int64
	rows, err := catalogue.ReadFlavors("prices.csv", strings.NewReader(
		"name,cpu,memory_gib,price_per_hour,extended_resources,ephemeral_storage_gib\ng.large@b,8,16,0.9,nvidia.com/gpu=4,50\nplain,8,16,0.1,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.requires(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "b")
	p := s.provider()
	all, err := offers(s.fleet.Spec.Karpenter, rows)
	if err != nil {
		t.Fatal(err)
	}
	stated := func(text string) corev1.ResourceList {
		return corev1.ResourceList{gpu: resource.MustParse(text), nic: resource.MustParse("1"), corev1.ResourceEphemeralStorage: resource.MustParse(text + "0Gi")}
	}
	launched, seen := &claim{}, &corev1.Node{}
	launched.Status.Allocatable, seen.Status.Allocatable = stated("3"), stated("2")
	for _, tc := range []struct {
		name string
		of   int
		e    example
		want amounts
		disk int64
	}{
		{"the pricing", 0, example{}, amounts{gpu: 4}, 50 << 30},
		{"a NodeClaim", 0, example{claim: launched}, amounts{gpu: 3, nic: 1}, 30 << 30},
		{"a node", 0, example{claim: launched, node: seen}, amounts{gpu: 2, nic: 1}, 20 << 30},
		{"a node whose driver publishes nothing", 0, example{claim: launched, node: &corev1.Node{}}, amounts{gpu: 3, nic: 1}, 30 << 30},
		{"nothing", 1, example{}, nil, 0},
	} {
		f := p.flavor(&all[tc.of], tc.e)
		var disk int64
		if f.EphemeralStorage != nil {
			disk = *f.EphemeralStorage
		}
		if diff := cmp.Diff(tc.want, f.Extended); diff != "" || disk != tc.disk {
			t.Errorf("what %s says: %d bytes, want %d (-want +got):\n%s", tc.name, disk, tc.disk, diff)
		}
	}
	if rows[0].Extended[gpu] != 4 || len(rows[0].Extended) != 1 {
		t.Errorf("the pricing itself has changed: %v", rows[0].Extended)
	}
}
