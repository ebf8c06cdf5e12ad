package extended

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/internal/packing"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// requested are the resources with these names.
func requested(names ...corev1.ResourceName) map[corev1.ResourceName]bool {
	all := map[corev1.ResourceName]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

func TestResourcesKeepTheirSlots(t *testing.T) {
	first := Names{}.With(requested("b.example/x", "amd.com/gpu", gpu))
	if want := (Names{"amd.com/gpu", gpu, "b.example/x"}); first != want {
		t.Fatalf("%q, want %q: GPUs first, then by name", first, want)
	}
	tests := []struct {
		name      string
		requested map[corev1.ResourceName]bool
		want      Names
	}{
		{"nothing is requested", nil, first},
		{"one more", requested(gpu, "a.example/x"), Names{"amd.com/gpu", gpu, "b.example/x", "a.example/x"}},
		{"more than there are slots: the first by name have those of which nothing is requested", requested(gpu, "a.example/x", "c.example/x", "d.example/x", "e.example/x"),
			Names{"c.example/x", gpu, "d.example/x", "a.example/x"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := first.With(tc.requested); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestAmountsHaveTheUnitsOfTheirSlots(t *testing.T) {
	names := Names{gpu, corev1.ResourceHugePagesPrefix + "2Mi"}
	tests := []struct {
		name    string
		asks    map[corev1.ResourceName]int64
		want    packing.Extended
		missing corev1.ResourceName
	}{
		{"nothing", nil, packing.Extended{}, ""},
		{"two GPUs", map[corev1.ResourceName]int64{gpu: 2}, packing.Amounts(2), ""},
		{"huge pages by page, rounded up", map[corev1.ResourceName]int64{names[1]: 4<<20 + 1}, packing.Amounts(0, 3), ""},
		{"others have no slot", map[corev1.ResourceName]int64{"b.example/x": 1, "a.example/x": 1, gpu: 1}, packing.Amounts(1), "a.example/x"},
		{"none of another", map[corev1.ResourceName]int64{"a.example/x": 0}, packing.Extended{}, ""},
		{"more than a slot can hold", map[corev1.ResourceName]int64{gpu: math.MaxInt16 + 1}, packing.Extended{}, gpu},
		{"what is no extended resource", map[corev1.ResourceName]int64{corev1.ResourceEphemeralStorage: 1, corev1.ResourcePods: 1}, packing.Extended{}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, missing := names.Requests(tc.asks)
			if got != tc.want || missing != tc.missing {
				t.Errorf("%v, and %q is missing; want %v, %q", got, missing, tc.want, tc.missing)
			}
		})
	}
	if got, want := names.Capacity(map[corev1.ResourceName]int64{gpu: math.MaxInt64, names[1]: 4<<20 - 1, "a.example/x": 1}), packing.Amounts(math.MaxInt16, 1); got != want {
		t.Errorf("a node has %v, want %v: rounded down", got, want)
	}
}

func TestGPUsAreKnownByTheirNames(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		gpu: true, "amd.com/gpu": true, "gpu.intel.com/xe": true, "nvidia.com/mig-1g.5gb": true, "nvidia.com/gpu.shared": true, "example.com/gpu-milli": true,
		"example.com/nic": false, "nvidia.com/nic": false, "hugepages-2Mi": false, "gpu": false, "cpu": false, "example.com/mig-1": false,
	} {
		if got := IsGPU(name); got != want {
			t.Errorf("%s is GPUs: %t, want %t", name, got, want)
		}
	}
	names := Names{"a.example/x", gpu}
	for _, tc := range []struct {
		has  map[corev1.ResourceName]int64
		want GPUs
	}{
		{map[corev1.ResourceName]int64{"a.example/x": 3, gpu: 4}, GPUs{true, packing.Amounts(0, 4)}},
		{map[corev1.ResourceName]int64{"amd.com/gpu": 1}, GPUs{Any: true}},
		{map[corev1.ResourceName]int64{"a.example/x": 3, gpu: 0}, GPUs{}},
	} {
		if got := names.GPUs(tc.has); got != tc.want {
			t.Errorf("%v: the GPUs are %+v, want %+v", tc.has, got, tc.want)
		}
	}
}

func TestAmountsOfAListAreThoseOfExtendedResources(t *testing.T) {
	list := corev1.ResourceList{}
	for name, amount := range map[corev1.ResourceName]string{"cpu": "4", "memory": "1Gi", "pods": "110", "ephemeral-storage": "1Gi", "attachable-volumes-aws-ebs": "39", "a.example/x": "0", gpu: "2"} {
		list[name] = resource.MustParse(amount)
	}
	if got := Amounts(list); len(got) != 1 || got[gpu] != 2 {
		t.Errorf("%v, want 2 GPUs", got)
	}
	if got := Amounts(corev1.ResourceList{"cpu": resource.MustParse("4")}); got != nil {
		t.Errorf("%v, want nil", got)
	}
}
