package catalogue

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

const offerHeader = "name,cpu,memory_gib,price_per_hour,zones,labels,taints\n"

func TestReadOffersReadsWhatPodsMayDemand(t *testing.T) {
	const input = "name,cpu,memory_gib,price_per_hour,arch,zones,labels,taints\n" +
		"gpu,2,4,0.5,arm64,b ; a,disk=ssd;example.com/rack=,dedicated=ml:NoSchedule;spot:PreferNoSchedule;dedicated=ml:NoExecute\n" +
		"any,2,4,0.1,,,,\n"
	want := []Offer{
		{Flavor: Flavor{Flavor: cluster.Flavor{Name: "any", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 4 << 30}, MicroDollarsPerHour: 100_000}}},
		{
			Flavor: Flavor{Flavor: cluster.Flavor{Name: "gpu", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 4 << 30}, MicroDollarsPerHour: 500_000, Arch: "arm64"}},
			Zones:  []string{"a", "b"},
			Labels: []Label{{"disk", "ssd"}, {"example.com/rack", ""}},
			Taints: []Taint{{"dedicated", "ml", "NoExecute"}, {"dedicated", "ml", "NoSchedule"}, {"spot", "", "PreferNoSchedule"}},
		},
	}
	got, err := ReadOffers("f.csv", strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offers (-want +got):\n%s", diff)
	}
}

func TestReadOffersRefusesBadInput(t *testing.T) {
	tests := []struct{ name, row, want string }{
		{"an empty zone", "a,1,1,1,x;,,", `f.csv:2: zones: "x;" has "", which is not a zone`},
		{"a zone that is no label value", "a,1,1,1,x y,,", `zones: "x y" has "x y", which is not a zone`},
		{"a zone twice", "a,1,1,1,x;y;x,,", `zones: "x;y;x" has a duplicate entry`},
		{"a label without a key", "a,1,1,1,,=v,", `f.csv:2: labels: "=v" has "=v", which is not a valid label`},
		{"a bad label value", "a,1,1,1,,k=-,", `labels: "k=-" has "k=-"`},
		{"a label twice", "a,1,1,1,,k=a;k=b,", `labels: "k=a;k=b" has a duplicate entry`},
		{"a label that is a column", "a,1,1,1,,kubernetes.io/arch=arm64,", "has kubernetes.io/arch: use column arch instead"},
		{"a zone as a label", "a,1,1,1,,topology.kubernetes.io/zone=a,", "use column zones instead"},
		{"a taint without effect", "a,1,1,1,,,k=v", `f.csv:2: taints: "k=v" has`},
		{"a taint of no known effect", "a,1,1,1,,,k=v:Never", `has "k=v:Never" without an effect: must be key=value:NoSchedule`},
		{"a taint without a key", "a,1,1,1,,,:NoSchedule", `has ":NoSchedule", which is not a valid label`},
		{"a taint twice", "a,1,1,1,,,k=v:NoSchedule;k=w:NoSchedule", "has a duplicate entry"},
		{"a name twice", "a,1,1,1,,,\na,1,1,1,,,", `f.csv:3: name: "a" is also the name in line 2`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			offers, err := ReadOffers("f.csv", strings.NewReader(offerHeader+tc.row+"\n"))
			if err == nil || offers != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ReadOffers = %v, %v, want no offers and %s", offers, err, tc.want)
			}
		})
	}
}

func TestZonesLabelsAndTaintsAreRefusedWhereNobodyRespectsThem(t *testing.T) {
	_, err := ReadFlavors("f.csv", strings.NewReader(offerHeader+"a,1,1,1,x,,\n"))
	if err == nil || !strings.Contains(err.Error(), "f.csv:1: zones: is not a column of the flavor catalogue") {
		t.Errorf("ReadFlavors gives %v, want that it knows no zones", err)
	}
}

// FuzzReadOffers checks that lists of accepted offers are sorted and without duplicates, and that a flavor catalogue is
// read as by [ReadFlavors].
func FuzzReadOffers(f *testing.F) {
	f.Add([]byte(offerHeader + "a,2,8,0.1,x;y,k=v;l,k=v:NoSchedule;k:NoExecute\n"))
	f.Add([]byte(offerHeader + "a,2,8,0.1,;,=;,::\n"))
	f.Add([]byte(flavorHeader + "a,2,8,0.1\nb,1930m,6.74,1.6128\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		offers, err := ReadOffers("f.csv", bytes.NewReader(input))
		flavors, flavorsErr := ReadFlavors("f.csv", bytes.NewReader(input))
		if err != nil {
			checkRefusal(t, err)
			if flavorsErr == nil {
				t.Fatal("is a catalogue and yet refused")
			}
			return
		}
		for i, o := range offers {
			if flavorsErr == nil && !reflect.DeepEqual(o.Flavor, flavors[i]) {
				t.Fatalf("flavor %+v is read as %+v", flavors[i], o.Flavor)
			}
			for at := range o.Zones {
				if o.Zones[at] == "" || at > 0 && o.Zones[at-1] >= o.Zones[at] {
					t.Fatalf("zones %q", o.Zones)
				}
			}
			for at := range o.Labels {
				if o.Labels[at].Key == "" || at > 0 && o.Labels[at-1].Key >= o.Labels[at].Key {
					t.Fatalf("labels %q", o.Labels)
				}
			}
			for _, taint := range o.Taints {
				if taint.Key == "" || !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, taint.Effect) {
					t.Fatalf("taint %q", taint)
				}
			}
		}
	})
}
