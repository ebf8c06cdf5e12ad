package fleetobserve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// Only pods that both could get a machine for are left to the other buyer: neither those that it does not serve, nor
// those that no machine of the fleet can hold, of which the planner says why.
func TestPodsThatAnotherBuyerServesAreLeftToIt(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 100_000))
	s.all[0].Inventory.Rivals = []provider.Rival{
		{Name: "NodePool none", Serves: func(*corev1.Pod) bool { return false }, Apart: "Never said."},
		{Name: "NodePool web", Serves: func(p *corev1.Pod) bool { return p.Labels["app"] == "web" }, Apart: "Keep them apart."},
	}
	for name, app := range map[string]string{"b": "web", "a": "web", "own": "batch", "huge": "web"} {
		cpu := int64(1000)
		if name == "huge" {
			cpu = 5000
		}
		pod := waitingPod(testPod(name, cpu, 512, 0))
		pod.Labels = map[string]string{"app": app}
		s.pod(pod)
	}
	o := s.observe()
	if diff := cmp.Diff([]string{"huge", "own"}, pendingOf(o)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	const why = "no machine is planned for it: it fits NodePool web, too, which buys for it"
	if diff := cmp.Diff([]v1alpha1.Rejection{{Name: "default/a", Reason: why}, {Name: "default/b", Reason: why}}, o.Held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pod default/a and 1 other pod: no machine is bought, because NodePool web fits them, too, and may buy one. Keep them apart."}, o.Contested); diff != "" {
		t.Errorf("contested (-want +got):\n%s", diff)
	}
	if _, waits := o.Waited["default/a"]; waits || len(o.Waited) != 2 {
		t.Errorf("waiting for a batch: %v", o.Waited)
	}
	for _, p := range o.State.Recent {
		if p.Name == "default/a" || p.Name == "default/b" {
			t.Errorf("more pods like %s are expected", p.Name)
		}
	}
	_, left := Offers(s.world, s.all[0].Fleet, s.all[0].Inventory, &Prices{}, epoch)
	const apart = "no machine is bought, because NodePool web fits it, too, and may buy one. Keep them apart."
	if diff := cmp.Diff(map[string]string{"default/a": apart, "default/b": apart}, left); diff != "" {
		t.Errorf("explained as left (-want +got):\n%s", diff)
	}
	if len(o.State.Recent) != 2 {
		t.Errorf("%d arrivals, want 2", len(o.State.Recent))
	}
}
