package fleet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/runtimes"
)

// pullFails is the status of a container whose image has no variant for the node.
func pullFails(pod *corev1.Pod) *corev1.Pod {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "ErrImagePull", Message: `failed to pull and unpack image "docker.io/library/i:latest": no match for platform in manifest: not found`,
	}}}}
	return pod
}

func TestTheSecondPodWithAnImageThatLacksAnArchitectureGetsAMachineThatRunsIt(t *testing.T) {
	arm := modelFlavor("arm", 4, 16, 50_000)
	arm.Labels[corev1.LabelArchStable] = "arm64"
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Consolidation.Policy = v1alpha1.ConsolidateWhenEmpty }), append([]provider.Flavor{arm}, smalls()...))
	m.add(testPod("p", 3000, 1024, 9*time.Hour))
	m.run(4*minute, "f")
	pods := m.pods()
	if m.most["arm"] != 1 || m.made != 1 || pods[0].Spec.NodeName == "" {
		t.Fatalf("the first pod is on %q, and machines were made %v, want the cheaper arm", pods[0].Spec.NodeName, m.most)
	}
	m.must(m.client.Status().Update(t.Context(), pullFails(&pods[0])))
	m.restart()
	told := events.NewFakeRecorder(1000)
	m.r.Events = told
	m.add(testPod("q", 3000, 1024, 9*time.Hour))
	m.run(4*minute, "f")
	if m.most["arm"] != 1 || m.most["small"] != 1 {
		t.Errorf("machines were made %v, want one of each flavor\n%s", m.most, strings.Join(m.log, "\n"))
	}
	const want = `Warning ImageDoesNotRun Image "i" has no variant for arm64: no arm64 machines are bought for pods that use it for the next 1h0m0s; ` +
		`pod default/p stays on node node-m01 until it is deleted`
	said := 0
	for len(told.Events) > 0 {
		if <-told.Events == want {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d Events say %s", said, want)
	}
}

func TestAPodThatComesToShowThatItsImageDoesNotRunStartsARound(t *testing.T) {
	matters := (&Reconciler{learned: runtimes.NewLearner(), Clock: clock.RealClock{}}).podMatters()
	before := placedOn("n", testPod("p", 3000, 1024, time.Hour))
	after := pullFails(before.DeepCopy())
	if !matters.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("it starts none")
	}
	if matters.Update(event.UpdateEvent{ObjectOld: after, ObjectNew: after}) {
		t.Error("it starts another when nothing has changed")
	}
}
