package karpenter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

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
