package pricelist

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
)

func TestEveryListCanBeReadAndIsWhole(t *testing.T) {
	want := map[string]map[string]int{
		"aws": {"us-east-1": 1345}, "azure": {"eastus": 724, "westeurope": 724}, "gcp": {"us-central1": 164},
	}
	got := map[string]map[string]int{}
	for _, list := range Lists() {
		got[list] = map[string]int{}
		for _, region := range Regions(list) {
			types, err := Read(list, region)
			if err != nil {
				t.Fatal(err)
			}
			got[list][region] = len(types)
			for _, f := range types {
				if f.MicroDollarsPerHour <= 0 || f.MaxPods == nil || f.Arch == "" || f.MachineType == "" {
					t.Errorf("%s %s: %s lacks a price, a number of pods, an architecture or a family: %+v", list, region, f.Name, f)
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instance types (-want +got):\n%s", diff)
	}
}

// TestListsSayWhatPodsCanUse compares with the values of the providers and their documentation.
func TestListsSayWhatPodsCanUse(t *testing.T) {
	for _, tc := range []struct {
		list, region string
		want         catalogue.Flavor
	}{
		{"aws", "us-east-1", catalogue.Flavor{Flavor: cluster.Flavor{Name: "m7i.large", Size: packing.Size{MilliCPU: 1930, MemoryBytes: 6903 << 20}, MicroDollarsPerHour: 100_800, Arch: "amd64", MaxPods: new(int64(29))}, MachineType: "m7i"}},
		{"aws", "us-east-1", catalogue.Flavor{Flavor: cluster.Flavor{Name: "t3.small", Size: packing.Size{MilliCPU: 1930, MemoryBytes: 1418 << 20}, MicroDollarsPerHour: 20_800, Arch: "amd64", MaxPods: new(int64(11))}, MachineType: "t3", Kind: catalogue.KindBurstable}},
		// 16 GiB without 7.5 %, 25 % of 4 GiB, 20 % of 4, 10 % of 8 and 100 MiB
		{"azure", "eastus", catalogue.Flavor{Flavor: cluster.Flavor{Name: "Standard_D4ps_v5", Size: packing.Size{MilliCPU: 3920, MemoryBytes: 12392 << 20}, MicroDollarsPerHour: 154_000, Arch: "arm64", MaxPods: new(int64(110))}, MachineType: "Dps_v5"}},
		{"azure", "westeurope", catalogue.Flavor{Flavor: cluster.Flavor{Name: "Standard_D4ps_v5", Size: packing.Size{MilliCPU: 3920, MemoryBytes: 12392 << 20}, MicroDollarsPerHour: 184_000, Arch: "arm64", MaxPods: new(int64(110))}, MachineType: "Dps_v5"}},
		{"gcp", "us-central1", catalogue.Flavor{Flavor: cluster.Flavor{Name: "n2-standard-4", Size: packing.Size{MilliCPU: 3920, MemoryBytes: 12392 << 20}, MicroDollarsPerHour: 194_236, Arch: "amd64", MaxPods: new(int64(110))}, MachineType: "n2"}},
	} {
		types, err := Read(tc.list, tc.region)
		if err != nil {
			t.Fatal(err)
		}
		var found catalogue.Flavor
		for _, f := range types {
			if f.Name == tc.want.Name {
				found = f
			}
		}
		if diff := cmp.Diff(tc.want, found); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.list, tc.region, diff)
		}
	}
}

func TestAnUnknownListOrRegionIsRefusedWithThoseThatThereAre(t *testing.T) {
	for _, tc := range []struct{ list, region, want string }{
		{"ibm", "us-east-1", "must be one of aws, azure, gcp"},
		{"", "us-east-1", "must be one of aws, azure, gcp"},
		{"azure", "us-east-1", "must be one of eastus, westeurope"},
		{"aws", "../gcp/us-central1", "must be one of us-east-1"},
	} {
		if _, err := Read(tc.list, tc.region); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s: %v, want that %s", tc.list, tc.region, err, tc.want)
		}
	}
}

// TestListsStateAccelerators compares the accelerators of a few types with those of the providers' documentation, and names the
// accelerated ones of which none are stated: FPGAs, video transcoders, and types with a fraction of a GPU.
func TestListsStateAccelerators(t *testing.T) {
	const gpu, neuron, core = "nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
	for _, tc := range []struct {
		list, region string
		want         map[string]map[corev1.ResourceName]int64
		without      []string
	}{
		{"aws", "us-east-1", map[string]map[corev1.ResourceName]int64{
			"g5.xlarge": {gpu: 1}, "g5.12xlarge": {gpu: 4}, "p5.48xlarge": {gpu: 8}, "g4ad.8xlarge": {"amd.com/gpu": 2}, "inf2.24xlarge": {neuron: 6, core: 12}, "m7i.large": nil,
		}, []string{"f2", "g6f", "gr6f", "vt1"}},
		{"azure", "eastus", map[string]map[corev1.ResourceName]int64{"Standard_NC6s_v3": {gpu: 1}, "Standard_NC64as_T4_v3": {gpu: 4}, "Standard_ND40rs_v2": {gpu: 8}}, []string{"NP"}},
		{"azure", "westeurope", map[string]map[corev1.ResourceName]int64{"Standard_NC24ads_A100_v4": {gpu: 1}, "Standard_NV48s_v3": {gpu: 4}}, []string{"NP"}},
		{"gcp", "us-central1", map[string]map[corev1.ResourceName]int64{"a2-highgpu-4g": {gpu: 4}, "a2-megagpu-16g": {gpu: 16}, "n2-standard-4": nil}, nil},
	} {
		types, err := Read(tc.list, tc.region)
		if err != nil {
			t.Fatal(err)
		}
		got, without := map[string]map[corev1.ResourceName]int64{}, map[string]bool{}
		for _, f := range types {
			if _, named := tc.want[f.Name]; named {
				got[f.Name] = f.Extended
			}
			if accelerated := f.Kind == catalogue.KindAccelerated; accelerated && f.Extended == nil {
				without[strings.TrimRight(f.MachineType, "s")] = true
			} else if !accelerated && f.Extended != nil {
				t.Errorf("%s: %s has %v, and is not accelerated", tc.list, f.Name, f.Extended)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.list, tc.region, diff)
		}
		if diff := cmp.Diff(tc.without, slices.Sorted(maps.Keys(without))); diff != "" {
			t.Errorf("%s %s: families of which none are stated (-want +got):\n%s", tc.list, tc.region, diff)
		}
	}
}
