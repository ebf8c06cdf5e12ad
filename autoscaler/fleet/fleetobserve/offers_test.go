package fleetobserve

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
)

func TestOffersSayWhatARoundWouldSay(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	const gib = 1 << 30
	flavor := func(name string, change ...func(*provider.Flavor)) provider.Flavor {
		f := provider.Flavor{
			Name: name, Size: packing.Size{MilliCPU: 4000, MemoryBytes: 16 * gib}, MaxPods: 110, Max: 5, HasPrice: true, MicroDollarsPerHour: 1,
			Labels: map[string]string{corev1.LabelTopologyZone: "a"},
		}
		for _, c := range change {
			c(&f)
		}
		return f
	}
	inventory := &provider.Inventory{
		Flavors: []provider.Flavor{
			flavor("fits"),
			flavor("broken", func(f *provider.Flavor) { f.Problem = "its template is missing" }),
			flavor("failed"),
			flavor("full", func(f *provider.Flavor) { f.Max, f.Want = 1, 1 }),
			flavor("snug", func(f *provider.Flavor) { f.Size.MilliCPU = 2000 }),
			flavor("tainted", func(f *provider.Flavor) {
				f.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
				f.Stated = f.Taints
			}),
			flavor("tiny", func(f *provider.Flavor) { f.Size.MilliCPU = 50 }),
			flavor("unpriced", func(f *provider.Flavor) { f.HasPrice = false }),
			flavor("zoned", func(f *provider.Flavor) { f.Labels = map[string]string{corev1.LabelTopologyZone: "b"} }),
		},
		Machines: []provider.Machine{{Name: "m", Flavor: "full", Ordered: now}},
	}
	fleet := &v1alpha1.NodeFleet{}
	fleet.Spec.Class = v1alpha1.FleetAny
	until := metav1.NewTime(now.Add(time.Minute))
	fleet.Status.Flavors = []v1alpha1.FlavorStatus{{Name: "failed", Failures: 3, BackOffUntil: &until}}

	pod := fixtures.Pod("p", 1950, gib, func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	})
	daemon := fixtures.Pod("logs", 100, gib)
	w := &world.World{
		Nodes: map[string]*corev1.Node{}, Pods: []*corev1.Pod{pod},
		Daemons: []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "logs"}, Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: daemon.Spec}}}},
	}
	waiting := world.NewView(w, now, runtimes.NewLearner()).Waiting(class.Any)
	if len(waiting) != 1 {
		t.Fatalf("%d pods wait, want one", len(waiting))
	}
	got := map[string]string{}
	offers, _ := Offers(w, fleet, inventory, &Prices{}, now)
	for _, o := range offers {
		got[o.Name] = o.Refuses(&waiting[0].Pod)
	}
	want := map[string]string{
		"fits": "", "broken": "its template is missing", "failed": "in back-off until 2026-11-26T12:01:00Z: its last machines did not become usable, or did not stay so",
		"full": "quota: it has its maximum of 1 machine", "snug": "too small (CPU)", "tainted": "not admitted: untolerated taint own:NoSchedule",
		"tiny": "DaemonSet pods and static pods leave no room on it", "unpriced": "no price is known", "zoned": "not admitted: node selector topology.kubernetes.io/zone=a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if inventory.Flavors[7].Problem != "" {
		t.Error("the inventory was changed")
	}
	if got := ReadyAfter(fleet, "fits"); got != fleet.Spec.Scaling.ExpectedLag.Duration {
		t.Errorf("a machine of which nothing was learned takes %v", got)
	}
}
