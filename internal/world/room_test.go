package world_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
)

func TestEachNodeSaysWhyItDoesNotTakeAPod(t *testing.T) {
	const gib = 1 << 30
	gpu := corev1.ResourceName("example.com/gpu")
	nodes := map[string]*corev1.Node{
		"free":     fixtures.Node("free", 4000, 8*gib, func(n *corev1.Node) { n.Status.Allocatable[gpu] = resource.MustParse("2") }),
		"full":     fixtures.Node("full", 4000, 8*gib, func(n *corev1.Node) { n.Status.Allocatable[gpu] = resource.MustParse("2") }),
		"promised": fixtures.Node("promised", 4000, 8*gib, func(n *corev1.Node) { n.Status.Allocatable[gpu] = resource.MustParse("2") }),
		"small":    fixtures.Node("small", 500, gib/2, func(n *corev1.Node) { n.Status.Allocatable[gpu] = resource.MustParse("2") }),
		"plain":    fixtures.Node("plain", 4000, 8*gib),
		"crowded": fixtures.Node("crowded", 4000, 8*gib, func(n *corev1.Node) {
			n.Status.Allocatable[gpu], n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("2"), resource.MustParse("1")
		}),
		"tainted": fixtures.Node("tainted", 4000, 8*gib, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "own", Value: "team", Effect: corev1.TaintEffectNoSchedule}}
		}),
		"batch":   fixtures.Node("batch", 4000, 8*gib, fixtures.NodeClass("batch")),
		"shunned": fixtures.Node("shunned", 4000, 8*gib, func(n *corev1.Node) { n.Status.Allocatable[gpu] = resource.MustParse("2") }),
	}
	on := func(name, node string, milliCPU int64, change ...func(*corev1.Pod)) corev1.Pod {
		return *fixtures.Pod(name, milliCPU, gib, append(change, func(p *corev1.Pod) { p.Spec.NodeName = node })...)
	}
	anti := func(p *corev1.Pod) {
		p.Labels["app"] = "web"
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: corev1.LabelHostname},
		}}}
	}
	asks := fixtures.Pod("asks", 1000, gib, anti, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("1")
	})
	w := &world.World{Nodes: nodes, Pods: []corev1.Pod{
		*asks, on("other", "full", 3500), on("one", "crowded", 100), on("like", "shunned", 100, anti),
		*fixtures.Pod("coming", 3500, gib, func(p *corev1.Pod) { p.Status.NominatedNodeName = "promised" }),
	}}
	got, err := world.NewView(w, time.Time{}, runtimes.NewLearner()).Refusals(asks)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"free": "", "full": "Insufficient cpu", "promised": "Insufficient cpu", "small": "Insufficient cpu, Insufficient memory",
		"plain": "Insufficient example.com/gpu", "crowded": "Too many pods", "tainted": "untolerated taint own=team:NoSchedule",
		"batch": "accepts only batch pods", "shunned": got["shunned"],
	}
	if diff := cmp.Diff(want, got); diff != "" || want["shunned"] == "" {
		t.Errorf("shunned by %q; (-want +got):\n%s", want["shunned"], diff)
	}
}
