package nodefleet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// offerDevice publishes one device of a node and its class, as a DRA driver does.
func (b *bench) offerDevice(node string) {
	b.Helper()
	driver := b.Space + ".example.com"
	b.Make(
		&resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
				{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}},
			}},
		},
		&resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: b.Space + "-slice"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "first"}},
			},
		})
}

// claims creates a claim of one device, and makes a pod use it.
func (b *bench) claims(name string) func(*corev1.Pod) {
	b.Helper()
	b.Make(&resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: b.Space + ".example.com"}},
		}}},
	})
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
	}
}

// TestPodsWithClaimsUseNodesThatAreThere has a node with one device and two pods that claim one. The first pod gets it and keeps the
// node, although it may be restarted and its CPU and memory are free elsewhere, while an idle machine goes. For the second pod
// nothing is bought, and machines for others are.
func TestPodsWithClaimsUseNodesThatAreThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, "claims")
	b.flavor("device", "4", "8Gi", "3.00", begins(1))
	b.flavor("idle", "4", "8Gi", "0.16", begins(1))
	b.flavor("big", "16", "32Gi", "0.50")
	b.room()
	b.named("idle", 1)
	node := b.named("device", 1)[0]
	b.offerDevice(node)
	served := b.movablePod("served", "500m", "1Gi")
	served.OwnerReferences = []metav1.OwnerReference{b.owner()}
	b.claims("one")(served)
	b.Make(served)
	b.Runs(2)
	highest := b.highest()
	b.Make(b.pod("refused", "500m", "1Gi", b.claims("two")), b.pod("other", "15", "1Gi"))
	b.wait(2)
	b.fleet("all", underUsed)
	b.autoscale()

	b.becomes(map[string]int{"device": 1, "room": 1, "big": 1})
	b.Runs(3)
	b.Eventually("nothing is left of what was done", b.untouched)
	if each, _ := highest(); !cmp.Equal(map[string]int{"device": 1, "idle": 1, "room": 1, "big": 1}, each) {
		t.Errorf("there were to be %v machines", each)
	}
	if on := b.podsOn(node); len(on) != 1 || on[0].Name != "served" {
		t.Errorf("%d pods are on the node with the device, want the one that claims it", len(on))
	}
	refused := b.HasEvent("Pod", "refused", v1alpha1.PodReasonNotTriggerScaleUp, "resource claim device")
	if text := b.command("explain", "pod", "refused", "-n", b.Space); !strings.Contains(text, refused) {
		t.Errorf("the Event is %q, and explain prints\n%s", refused, text)
	}
}
