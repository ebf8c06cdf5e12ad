package nodefleet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// priorityClass creates a PriorityClass, and returns a change of a pod that sets it.
func (b *bench) priorityClass(name string, value int32) func(*corev1.Pod) {
	b.Helper()
	name = b.Space + "-" + name
	b.Make(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

// admitted creates a pod. The API server admits pods of a PriorityClass once its watch has delivered the class.
func (b *bench) admitted(pod *corev1.Pod) {
	b.Helper()
	b.Eventually("pod "+pod.Name+" is admitted", func() string {
		if err := b.Create(b.Context(), pod.DeepCopy()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// runsAmong waits until a pod runs.
func (b *bench) runsAmong(name string) {
	b.Helper()
	b.Eventually("pod "+name+" runs", func() string {
		for _, p := range b.Running() {
			if p.Name == name {
				return ""
			}
		}
		return "it does not"
	})
}

// TestExpendablePodsGetNoMachineAndPausePodsDo has the scheduler preempt a pod that only reserves room, whose successor
// then gets a machine. An expendable pod fills what is left, and keeps no machine.
func TestExpendablePodsGetNoMachineAndPausePodsDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, "priority")
	b.flavor("a", "2", "4Gi", "0.10")
	expendable, pause := b.priorityClass("expendable", -11), b.priorityClass("pause", -10)
	b.fleet("all")
	b.autoscale()
	b.admitted(b.pod("cheap", "1500m", "1Gi", expendable))
	b.wait(1)
	b.admitted(b.pod("pause", "1", "1Gi", pause))
	b.runsAmong("pause")
	b.becomes(map[string]int{"a": 1}) // for the pause pod, and none for the other

	b.Make(b.pod("work", "1900m", "1Gi"))
	b.runsAmong("work") // in place of the pause pod
	b.becomes(map[string]int{"a": 1})
	b.admitted(b.pod("pause-again", "1", "1Gi", pause)) // as its controller would
	b.runsAmong("pause-again")
	b.becomes(map[string]int{"a": 2})

	b.admitted(b.pod("cheap-too", "500m", "512Mi", expendable))
	b.runsAmong("cheap-too") // beside the pause pod
	for _, name := range []string{"pause-again", "cheap", "work"} {
		if err := client.IgnoreNotFound(b.Delete(b.Context(), b.pod(name, "1", "1Gi"))); err != nil {
			t.Fatal(err)
		}
	}
	b.becomes(map[string]int{}) // although the expendable pod runs
}
