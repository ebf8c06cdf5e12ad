package consolidation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/internal/cluster"
)

// TestAPodIsReadAgainOnlyWhenItHasChanged compares the memory of what two rounds know of a pod: a round that shares it
// with the one before has not computed it again.
func TestAPodIsReadAgainOnlyWhenItHasChanged(t *testing.T) {
	p := newPlay(t, nil, halfEmpty()...)
	observed := func() map[string]cluster.Pod {
		t.Helper()
		r, err := p.mover.observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pods := map[string]cluster.Pod{}
		for _, n := range r.state.Nodes {
			for _, pod := range n.Pods {
				if len(pod.Images) == 0 {
					t.Fatalf("no images are known of pod %s", pod.Name)
				}
				pods[pod.Name] = pod
			}
		}
		if len(pods) != 2 {
			t.Fatalf("the round observes %d pods, want 2", len(pods))
		}
		return pods
	}

	before := observed()
	var changed corev1.Pod
	if err := p.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "q"}, &changed); err != nil {
		t.Fatal(err)
	}
	changed.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1200m") // as by a resize
	if err := p.client.Update(t.Context(), &changed); err != nil {
		t.Fatal(err)
	}
	after := observed()

	if &before["default/p"].Images[0] != &after["default/p"].Images[0] {
		t.Error("pod p has not changed, and was computed again")
	}
	if &before["default/q"].Images[0] == &after["default/q"].Images[0] {
		t.Error("pod q has changed, and was not computed again")
	}
	if got := after["default/q"].Size.MilliCPU; got != 1200 {
		t.Errorf("pod q requests %d m of CPU, want 1200 m", got)
	}
}
