package migration

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// addSilentNode adds a node without a kubelet: the test writes its status.
func (b *bench) addSilentNode(name string) {
	b.Helper()
	can := capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, Arch: "amd64", Restore: true}
	spec := playground.NodeSpec{
		Name: name, CPU: "8", Memory: "32Gi", Labels: map[string]string{kit.BenchLabel: b.Space},
		Annotations: map[string]string{v1alpha1.AnnotationCapability: can.Encode(), "kwok.x-k8s.io/node": "none"},
	}
	if err := playground.CreateNodes(b.Context(), b.Site.Playground.Client(), []playground.NodeSpec{spec}); err != nil {
		b.Fatal(err)
	}
	b.beat(name)
	b.Meanwhile = func() { b.beat(name) }
}

// beat reports a node as ready.
func (b *bench) beat(name string) {
	b.Helper()
	node := &corev1.Node{}
	if err := b.Get(b.Context(), client.ObjectKey{Name: name}, node); err != nil {
		b.Fatal(err)
	}
	before := node.DeepCopy()
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Test", LastHeartbeatTime: metav1.Now()}}
	if err := b.Status().Patch(b.Context(), node, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

// The kubelet of the new pod cannot create its container. The old container is frozen meanwhile, and would be
// for a day.
func TestANewPodThatCannotStartIsRolledBackSoon(t *testing.T) {
	t.Parallel()
	b := newBench(t, "no-start", 1)
	b.deschedule()
	b.job(1, batchv1.NonIndexedCompletion)
	old := b.Pods()[0]
	b.addSilentNode("no-start-silent")
	m := b.move(old.Name, func(s *v1alpha1.MigrationSpec) { s.Deadline = metav1.Duration{Duration: 24 * time.Hour} })
	pod := &corev1.Pod{}
	b.Eventually("the new pod is bound", func() string {
		if b.Find(m.Name, m); m.Status.Plan == nil || !b.Find(m.Status.Plan.RestoredPod, pod) || pod.Spec.NodeName == "" {
			return "in phase " + string(m.Status.Phase)
		}
		return ""
	})
	before := pod.DeepCopy()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `secret "gone" not found`},
	}}}
	if err := b.Status().Patch(b.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	b.is(m.Name, "goes back", phase(v1alpha1.MigrationRollingBack))
	b.Eventually("the new pod is being deleted", func() string {
		if b.Find(pod.Name, pod) && pod.DeletionTimestamp == nil {
			return "it is not"
		}
		return ""
	})
	if err := b.Delete(b.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil { // the kubelet confirms the deletion
		t.Fatal(err)
	}
	m = b.ends(m.Name, v1alpha1.MigrationRolledBack)
	if c := condition(m, v1alpha1.MigrationFinished); !strings.Contains(c.Message, "RestoreFailed") || !strings.Contains(c.Message, `secret "gone" not found`) {
		t.Errorf("does not say why: %+v", c)
	}
	if pods := b.healthy("work", 1); pods[0].UID != old.UID {
		t.Errorf("pod %s", pods[0].Name)
	}
}
