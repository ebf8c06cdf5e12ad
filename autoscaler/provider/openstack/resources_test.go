package openstack

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
)

type amounts = map[corev1.ResourceName]int64

func TestTheGPUsOfAFlavorAreThoseOfItsExtraSpecs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		specs map[string]string
		want  amounts
	}{
		{"none", map[string]string{"hw:cpu_policy": "dedicated", "resources:CUSTOM_BAREMETAL": "1"}, nil},
		{"virtual GPUs", map[string]string{"resources:VGPU": "2"}, amounts{nvidia: 2}},
		{"of several groups", map[string]string{"resources1:VGPU": "1", "resources_card-b:VGPU": "1"}, amounts{nvidia: 2}},
		{"PCI devices", map[string]string{"pci_passthrough:alias": "NVIDIA-A100:4, qat:1"}, amounts{nvidia: 4}},
		{"of two kinds", map[string]string{"pci_passthrough:alias": "amd-gpu:1,gpu-t4:2"}, amounts{nvidia: 2, amd: 1}},
		{"an alias that says nothing", map[string]string{"pci_passthrough:alias": "a1:4"}, nil},
		{"no numbers", map[string]string{"resources:VGPU": "many", "pci_passthrough:alias": "gpu,gpu:,gpu:-1"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, gpusOf(tc.specs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestANodeTellsMoreThanItsFlavor(t *testing.T) {
	s, spec := shelf(), &v1alpha1.OpenStackServers{}
	s.flavors[0].ExtraSpecs = map[string]string{"resources:VGPU": "2"}
	o, _ := s.find(spec, "large")
	if f := o.flavor(fleetOf(spec), spec, s, nil); !f.Presumed || f.Extended[nvidia] != 2 || *f.EphemeralStorage != 20<<30/100*85 {
		t.Errorf("without nodes: %+v; want what the flavor says", f)
	}
	node := &corev1.Node{}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, tc := range []struct {
		name  string
		has   amounts
		want  amounts
		bytes int64
	}{
		{"its driver has not published them yet", amounts{"hugepages-2Mi": 1 << 30}, amounts{nvidia: 2, "hugepages-2Mi": 1 << 30}, 0},
		{"it has others", amounts{"gpu.intel.com/xe": 1, corev1.ResourceEphemeralStorage: 7}, amounts{"gpu.intel.com/xe": 1}, 7},
	} {
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("3900m"), "memory": resource.MustParse("14Gi"), "pods": resource.MustParse("50")}
		for name, amount := range tc.has {
			node.Status.Allocatable[name] = *resource.NewQuantity(amount, resource.BinarySI)
		}
		f := o.flavor(fleetOf(spec), spec, s, node)
		if diff := cmp.Diff(tc.want, f.Extended); diff != "" || f.Presumed || (f.EphemeralStorage == nil) != (tc.bytes == 0) || tc.bytes > 0 && *f.EphemeralStorage != tc.bytes {
			t.Errorf("%s: presumed %t, %v bytes (-want +got):\n%s", tc.name, f.Presumed, f.EphemeralStorage, diff)
		}
	}
}
