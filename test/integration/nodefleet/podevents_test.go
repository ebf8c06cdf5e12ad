package nodefleet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestPodsHaveEventsAboutTheirMachines reads the Events of pods as kubectl describe does, and has explain print them.
func TestPodsHaveEventsAboutTheirMachines(t *testing.T) {
	t.Parallel()
	b := newBench(t, "podevents")
	b.flavor("a", "2", "4Gi", "0.10", comesAfter(5*time.Second))
	b.fleet("all")
	b.autoscale()
	b.Make(b.pod("fits", "1900m", "1Gi"), b.pod("large", "3", "1Gi"))
	waits := b.HasEvent("Pod", "fits", v1alpha1.PodReasonTriggeredScaleUp, "waits for podevents-a, ordered ")
	if !strings.Contains(waits, ", expected ") || !strings.HasSuffix(waits, "UTC (NodeFleet podevents-all)") {
		t.Errorf("the Event is %q", waits)
	}
	refused := b.HasEvent("Pod", "large", v1alpha1.PodReasonNotTriggerScaleUp, "no machine is bought for the pod. NodeFleet podevents-all: ")
	if text := b.command("explain", "pod", "large", "-n", b.Space); !strings.Contains(text, v1alpha1.PodReasonNotTriggerScaleUp+": "+refused) {
		t.Errorf("the Event is %q, and explain prints\n%s", refused, text)
	}
	b.runsAmong("fits")
	for _, e := range b.podEvents("fits") {
		if e.Reason == v1alpha1.PodReasonNotTriggerScaleUp || e.Reason == v1alpha1.PodReasonTriggeredScaleUp && e.Series != nil {
			t.Errorf("Event %s: %s, repeated: %+v", e.Reason, e.Message, e.Series)
		}
	}
}

// podEvents returns the Events about a pod.
func (b *bench) podEvents(name string) (found []corev1.Event) {
	b.Helper()
	var all corev1.EventList
	testapi.List(b, b, &all, client.InNamespace(b.Space))
	for _, e := range all.Items {
		if e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == name {
			found = append(found, e)
		}
	}
	return found
}
