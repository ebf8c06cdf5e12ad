package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/purchase"
)

// podRecorder keeps the Events about pods, as "POD REASON: MESSAGE".
type podRecorder struct{ texts []string }

// Eventf implements events.EventRecorder.
func (r *podRecorder) Eventf(regarding, related runtime.Object, _, reason, _, note string, args ...any) {
	pod, is := regarding.(*corev1.Pod)
	if !is {
		return
	}
	text := fmt.Sprintf("%s %s: ", pod.Name, reason) + fmt.Sprintf(note, args...)
	if fleet, is := related.(metav1.Object); !is || !strings.Contains(text, fleet.GetName()) {
		text += fmt.Sprintf(" (related to %v)", related)
	}
	r.texts = append(r.texts, text)
}

// TestPodsAreToldWhatTheyWaitForOrWhyNothingIsBought has one pod that fits, one that is too large, one that is expendable and
// one of another class.
func TestPodsAreToldWhatTheyWaitForOrWhyNothingIsBought(t *testing.T) {
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Class = v1alpha1.FleetService }), smalls())
	recorder := &podRecorder{}
	m.r.Events = recorder
	m.add(testPod("fits", 3000, 1024, 0), testPod("large", 9000, 1024, 0), prioritized(-11, testPod("cheap", 5000, 1024, 0)), testPod("job", 5000, 1024, time.Hour))
	m.run(5*minute, "f")
	large := ""
	for _, text := range recorder.texts {
		if strings.HasPrefix(text, "large ") {
			large = text
		}
	}
	want := []string{
		"fits TriggeredScaleUp: waits for small, ordered 00:00, expected 00:02 UTC (NodeFleet f)",
		"cheap NotTriggerScaleUp: no machine is bought for the pod. NodeFleet f: its priority is -11, and no machine is bought for pods below -10 (spec.scaling.expendablePodsPriorityCutoff)",
		"job NotTriggerScaleUp: no machine is bought for the pod. NodeFleet f: its machines accept only service pods, and this pod is of class batch",
		large,
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(recorder.texts))); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	if !strings.Contains(large, "NotTriggerScaleUp: no machine is bought for the pod. NodeFleet f: ") || strings.Contains(large, "no machine is planned") {
		t.Errorf("the large pod has %q", large)
	}
}

// TestAPodIsNotToldThatNothingIsBoughtWhileAnotherFleetBuys has a pod that fits machines of one of two fleets, which decides
// last.
func TestAPodIsNotToldThatNothingIsBoughtWhileAnotherFleetBuys(t *testing.T) {
	for name, tc := range map[string]struct {
		size int64
		want []string
	}{
		"one of them buys": {9000, []string{"p TriggeredScaleUp: waits for large, ordered 00:00, expected 00:02 UTC (NodeFleet g)"}},
		"none buys":        {90_000, []string{"p NotTriggerScaleUp: both"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, g := fleetNamed("f"), fleetNamed("g")
			m := newModel(t, []*v1alpha1.NodeFleet{f, g}, []provider.Flavor{modelFlavor("large", 16, 64, 350_000), modelFlavor("small", 4, 16, 100_000)})
			m.sellers = map[string]string{"large": "g", "small": "f"}
			recorder := &podRecorder{}
			m.r.Events = recorder
			m.add(testPod("p", tc.size, 1024, 0))
			m.run(5*minute, "f", "g")
			for i, text := range recorder.texts {
				if strings.Contains(text, "NodeFleet f: ") && strings.Contains(text, "NodeFleet g: ") {
					recorder.texts[i] = "p NotTriggerScaleUp: both"
				}
			}
			if diff := cmp.Diff(tc.want, recorder.texts); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAFleetThatObservesTellsPodsNothing would buy.
func TestAFleetThatObservesTellsPodsNothing(t *testing.T) {
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Mode = v1alpha1.FleetObserve }), smalls())
	recorder := &podRecorder{}
	m.r.Events = recorder
	m.add(testPod("fits", 3000, 1024, 0), testPod("large", 9000, 1024, 0))
	m.run(5*minute, "f")
	if len(recorder.texts) > 0 {
		t.Errorf("Events: %q", recorder.texts)
	}
}

// TestAMachineForTheMinimumIsNotWhatAPodWaitsFor has two machines that the plan has for pods, and two orders, of which one
// is for the minimum: a limit has cut the other machine.
func TestAMachineForTheMinimumIsNotWhatAPodWaitsFor(t *testing.T) {
	x := &execution{
		round:    &round{fleet: &v1alpha1.NodeFleet{}},
		decision: &decision{actions: fleetdecide.Actions{Fleet: fleetdecide.FleetDecision{ToMinimum: map[string]int{"small": 1}}}},
		ordered:  []v1alpha1.FleetOrder{{Flavor: "small", From: 3, To: 5}},
	}
	x.actions.Fleet.Plan.Machines = []purchase.Machine{{Flavor: "small", Pods: []string{"a"}}, {Flavor: "small", Pods: []string{"b"}}}
	var pods []string
	for _, w := range x.waits() {
		pods = append(pods, w.Pod)
	}
	if diff := cmp.Diff([]string{"a"}, pods); diff != "" {
		t.Errorf("pods that wait (-want +got):\n%s", diff)
	}
}
