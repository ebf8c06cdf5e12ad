package nodemeter

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestTheFirstProfileThatSaysSomethingSoundCounts(t *testing.T) {
	object := func(name, machineType, idle, full string) v1alpha1.MachineProfile {
		o := v1alpha1.MachineProfile{Spec: v1alpha1.MachineProfileSpec{MachineType: machineType}}
		o.Name = name
		if idle != "" {
			o.Spec.Power = &v1alpha1.MachinePower{IdleWatts: resource.MustParse(idle), FullWatts: resource.MustParse(full)}
		}
		return o
	}
	objects := []v1alpha1.MachineProfile{
		object("z", "rack-7", "90", "300"), object("c", "rack-7", "80", "250"), object("b", "rack-7", "300", "90"), object("a", "rack-7", "", ""), object("d", "other", "1", "2"), object("e", "", "3", "4"),
	}
	if m := powerOf(objects, "rack-7"); m == nil || m.Idle != 80 || m.Full != 250 {
		t.Errorf("%+v, want that of c: a says nothing, b cannot be, z comes later", m)
	}
	for _, machineType := range []string{"nobody's", ""} {
		if m := powerOf(objects, machineType); m != nil {
			t.Errorf("machine type %q: %+v", machineType, m)
		}
	}
}
