package nodefleet

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fails writes the status of a pod as its kubelet does if containerd finds no variant of the image for the
// node.
func (b *bench) fails(pod, image string) {
	b.Helper()
	message := fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %q: no match for platform in manifest: not found", image)
	patch := fmt.Appendf(nil, `{"status":{"phase":"Pending","containerStatuses":[{"name":"main","image":%q,"imageID":"","ready":false,"restartCount":0,`+
		`"state":{"waiting":{"reason":"ErrImagePull","message":%q}}}]}}`, image, message)
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: pod}}
	if err := b.Status().Patch(b.Context(), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		b.Fatalf("have pod %s fail: %v", pod, err)
	}
}

// runsOn waits until a pod runs, and returns the flavor of its node.
func (b *bench) runsOn(pod string) (flavor string) {
	b.Helper()
	b.Eventually("pod "+pod+" runs", func() string {
		var p corev1.Pod
		if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.Space, Name: pod}, &p); err != nil {
			return err.Error()
		}
		for _, n := range b.Nodes() {
			if p.Status.Phase == corev1.PodRunning && n.Name == p.Spec.NodeName {
				flavor = n.Labels[corev1.LabelInstanceTypeStable]
				return ""
			}
		}
		return fmt.Sprintf("%s on %q", p.Status.Phase, p.Spec.NodeName)
	})
	return flavor
}

// TestPodsWithAnImageThatLacksAnArchitectureGetMachinesThatRunIt has one pod that fails on the cheaper
// machine. Its owner deletes it, and its machine is released before the pod comes again.
func TestPodsWithAnImageThatLacksAnArchitectureGetMachinesThatRunIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "images")
	b.flavor("arm", "2", "4Gi", "0.10", func(s *spec) { s.Arch = "arm64" })
	b.flavor("amd", "2", "4Gi", "0.20")
	with := func(image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
	}
	b.fleet("all")
	b.autoscale()
	b.Make(b.pod("first", "1900m", "1Gi", with("acme/a:1")))
	if flavor := b.runsOn("first"); flavor != "arm" {
		t.Fatalf("the first pod is on %s, want the cheaper arm", flavor)
	}
	b.fails("first", "acme/a:1")
	const want = `Image "acme/a:1" has no variant for arm64: no arm64 machines are bought for pods that use it for the next 1h0m0s; pod images/first stays on node `
	if note := b.event("ImageDoesNotRun"); !strings.HasPrefix(note, want) {
		t.Errorf("the Event says %s", note)
	}
	for _, p := range []struct{ name, image, flavor string }{
		{"second", "acme/a:1", "amd"},
		{"other", "acme/b:1", "arm"}, // created later, because the scheduler could place either on its machine
	} {
		b.Make(b.pod(p.name, "1900m", "1Gi", with(p.image)))
		if flavor := b.runsOn(p.name); flavor != p.flavor {
			t.Errorf("pod %s with image %s is on %s, want %s", p.name, p.image, flavor, p.flavor)
		}
	}
	b.becomes(map[string]int{"amd": 1, "arm": 2})

	b.removePods()
	b.becomes(map[string]int{})
	b.Make(b.pod("first", "1900m", "1Gi", with("acme/a:1")))
	if flavor := b.runsOn("first"); flavor != "amd" {
		t.Errorf("the first pod has come again and is on %s, want amd", flavor)
	}
	told := 0
	for _, e := range b.events() {
		if e.Reason == "ImageDoesNotRun" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d Events say that the image lacks an architecture, want one", told)
	}
}
