package fleet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// prioritized gives a pod a priority.
func prioritized(priority int32, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Priority = &priority
	return pod
}

// TestMachinesAreBoughtForPodsAtTheCutoffAndNotBelow also has pods without a priority, and a fleet with another cutoff.
func TestMachinesAreBoughtForPodsAtTheCutoffAndNotBelow(t *testing.T) {
	cutoff := func(f *v1alpha1.NodeFleet) { f.Spec.Scaling.ExpendablePodsPriorityCutoff = new(int32(5)) }
	for name, tc := range map[string]struct {
		change func(*v1alpha1.NodeFleet)
		pod    *corev1.Pod
		bought int
	}{
		"no priority":              {nil, testPod("p", 3000, 1024, 0), 1},
		"at the default":           {nil, prioritized(-10, testPod("p", 3000, 1024, 0)), 1},
		"below the default":        {nil, prioritized(-11, testPod("p", 3000, 1024, 0)), 0},
		"at another cutoff":        {cutoff, prioritized(5, testPod("p", 3000, 1024, 0)), 1},
		"below another cutoff":     {cutoff, prioritized(4, testPod("p", 3000, 1024, 0)), 0},
		"none, and another cutoff": {cutoff, testPod("p", 3000, 1024, 0), 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, alone(tc.change), smalls())
			m.add(tc.pod)
			m.run(5*minute, "f")
			if m.made != tc.bought {
				t.Errorf("%d machines were made, want %d:\n%s", m.made, tc.bought, strings.Join(m.log, "\n"))
			}
			if status := m.fleet("f").Status; status.PendingPods != 0 {
				t.Errorf("%d pods are pending for the fleet", status.PendingPods)
			}
		})
	}
}

// TestAnExpendablePodKeepsNoMachine has a machine whose other pod ends. The expendable one is evicted before the machine is
// released, if that is not refused.
func TestAnExpendablePodKeepsNoMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(what string) error
		want   string
	}{
		"evicted": {nil, `0 pods run, 0 wait, 1 have ended, lost []; small 0 of 0, at most 1; 1 were made, 0 nodes are cordoned`},
		"evictions are refused": {refuseEvictions,
			`0 pods run, 0 wait, 1 have ended, lost ["low"]; small 0 of 0, at most 1; 1 were made, 0 nodes are cordoned`},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, alone(nil), smalls())
			m.before = tc.before
			early := testPod("early", 3000, 1024, time.Hour)
			early.Annotations["ends-after"] = "2m"
			m.add(early, prioritized(-20, testPod("low", 500, 512, 0)))
			m.run(12*minute, "f")
			m.checkOutcome(tc.want)
		})
	}
}
