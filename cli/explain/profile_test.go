package explain

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// sampleProfile reads the sample profile, of the machine type xeon-8.
func sampleProfile(t *testing.T, change ...func(*v1alpha1.MachineProfile)) *v1alpha1.MachineProfile {
	t.Helper()
	text := testfile.Read(t, "../../manifests/samples/machineprofile.yaml")
	var o v1alpha1.MachineProfile
	testfile.StrictYAML(t, text, &o)
	for _, c := range change {
		c(&o)
	}
	return &o
}

func TestAMachineProfileIsWorthWhatIsKnown(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name   string
		change func(*v1alpha1.MachineProfile)
		says   []string
	}{
		{"a good one", func(*v1alpha1.MachineProfile) {}, []string{
			"MachineProfile xeon-8, machine type xeon-8\nPower: 60 W without load, 210 W at full load\n",
			"Energy in J: 400·One + 30·OnePerCPU + 8·Memory\n  60 samples of 20 sizes, R² 0.992, usual error on unseen sizes 3.1 %\n",
			"learned from 0.25 CPU, 0.5 GiB to 4 CPU, 4 GiB: 411.5 to 552 J\n",
			"in the middle of that range: 432.1 J, trusted to 100 %\n",
		}},
		{"one for two CPU governors", func(o *v1alpha1.MachineProfile) {
			m := o.Spec.Models
			m.Governor, m.Governors = "schedutil", []v1alpha1.GovernorModels{{Governor: "powersave", Energy: *m.Energy.DeepCopy(), Runtime: m.Runtime}}
			m.Governors[0].Energy.Terms[0].Coefficient = "300"
		}, []string{"These models are for the CPU governor schedutil\nFor the CPU governor powersave:\nEnergy in J: 300·One + 30·OnePerCPU"}},
		{"an old one of a poor fit", func(o *v1alpha1.MachineProfile) {
			o.Spec.Models.LearnedAt = &metav1.Time{Time: at.Add(-252 * time.Hour)}
			o.Spec.Models.Energy.SpreadPermille = 300
		}, []string{"Learned: 2026-02-19T00:00:00Z, 252h0m0s ago\n", "trusted to 25 % (poor fit, old)"}},
		{"one that was edited", func(o *v1alpha1.MachineProfile) { o.Spec.Models.Runtime.Terms[1].Coefficient = "NaN" },
			[]string{"Not used: spec.models.runtime.terms[1]", "neutral score"}},
		{"an empty one", func(o *v1alpha1.MachineProfile) { o.Spec.Models = nil }, []string{"Not used: nothing has been learned yet"}},
		{"one that waits for a node", func(o *v1alpha1.MachineProfile) {
			o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ProfileProbed, Status: metav1.ConditionFalse, Reason: "NoEmptyNode", Message: "no node can be probed"}}
		}, []string{"\nProbed: False, no node can be probed (NoEmptyNode)\n"}},
	}
	for _, tc := range tests {
		var b strings.Builder
		if err := Profile(&b, sampleProfile(t, tc.change), at); err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.says {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: does not say %q:\n%s", tc.name, want, b.String())
			}
		}
	}
}
