package clusterapi

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// reported sets what cluster-api reports about whether a Machine is made from the current template.
func reported(status metav1.ConditionStatus) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineUpToDateCondition, Status: status, Reason: "Reported", LastTransitionTime: metav1.NewTime(start),
		})
	}
}

// updating is what cluster-api reports about a Machine of the current template that it updates in place or, since 1.14,
// whose kubelet has another version than the Machine states.
func updating(inPlace metav1.ConditionStatus) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineUpToDateUpdatingReason, LastTransitionTime: metav1.NewTime(start),
		}, metav1.Condition{
			Type: clusterv1.MachineUpdatingCondition, Status: inPlace, Reason: "Reported", LastTransitionTime: metav1.NewTime(start),
		})
	}
}

// TestAMachineOfAnOlderTemplateSaysNothingAboutNewOnes has nodes with three and with six cores.
func TestAMachineOfAnOlderTemplateSaysNothingAboutNewOnes(t *testing.T) {
	before, after := readyNode("before", capacity("cpu", "3", "memory", "15Gi")), readyNode("after", capacity("cpu", "6", "memory", "30Gi"))
	before.CreationTimestamp, after.CreationTimestamp = metav1.NewTime(start), metav1.NewTime(start.Add(-time.Hour)) // the younger is of the older template
	before.Labels[corev1.LabelTopologyZone] = "old-zone"
	old, current := reported(metav1.ConditionFalse), reported(metav1.ConditionTrue)
	for name, tc := range map[string]struct {
		of          *clusterv1.MachineDeployment
		machines    []*clusterv1.Machine
		cpu         int64
		seen, mixed bool
		zone        string
	}{
		"it is of the template":                    {sized(), []*clusterv1.Machine{capiMachine("a", on("before"), current)}, 3000, true, false, "old-zone"},
		"cluster-api has not said yet":             {sized(), []*clusterv1.Machine{capiMachine("a", on("before"))}, 3000, true, false, "old-zone"},
		"its kubelet has another version":          {sized(), []*clusterv1.Machine{capiMachine("a", on("before"), updating(metav1.ConditionFalse))}, 3000, true, false, "old-zone"},
		"it is being updated in place":             {sized(), []*clusterv1.Machine{capiMachine("a", on("before"), updating(metav1.ConditionTrue))}, 4000, false, true, ""},
		"it is of an older one":                    {sized(), []*clusterv1.Machine{capiMachine("a", on("before"), old)}, 4000, false, true, ""},
		"it is, and no size is stated":             {deployment(), []*clusterv1.Machine{capiMachine("a", on("before"), old)}, 3000, false, true, "old-zone"},
		"one of the template is there, too":        {sized(), []*clusterv1.Machine{capiMachine("a", on("before"), old), capiMachine("b", on("after"), current)}, 6000, true, true, ""},
		"one of the template is there, no node":    {sized(), []*clusterv1.Machine{capiMachine("a", on("before"), old), capiMachine("b", current)}, 4000, false, true, ""},
		"the machine of the older one has no node": {sized(), []*clusterv1.Machine{capiMachine("a", old), capiMachine("b", on("after"), current)}, 6000, true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, tc.of)
			for _, m := range tc.machines {
				if err := s.Create(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			nodes := map[string]*corev1.Node{"before": before, "after": after}
			found, err := New(s, s, Fleet{Spec: v1alpha1.ClusterAPIFlavors{Namespace: "machines"}}, nodes, NewTemplates(clock.RealClock{})).Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f := found.Flavors[0]
			if f.Size.MilliCPU != tc.cpu || f.Seen != tc.seen || found.Mixed(f.Name) != tc.mixed || f.Labels[corev1.LabelTopologyZone] != tc.zone || f.Problem != "" {
				t.Errorf("CPU %d, seen %t, mixed %t, zone %q (problem %q); want %d, %t, %t, %q",
					f.Size.MilliCPU, f.Seen, found.Mixed(f.Name), f.Labels[corev1.LabelTopologyZone], f.Problem, tc.cpu, tc.seen, tc.mixed, tc.zone)
			}
		})
	}
}
