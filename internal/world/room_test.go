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
	on := func(name, node string, milliCPU int64, change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod(name, milliCPU, gib, append(change, func(p *corev1.Pod) { p.Spec.NodeName = node })...)
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
	w := &world.World{Nodes: nodes, Pods: []*corev1.Pod{
		asks, on("other", "full", 3500), on("one", "crowded", 100), on("like", "shunned", 100, anti),
		fixtures.Pod("coming", 3500, gib, func(p *corev1.Pod) { p.Status.NominatedNodeName = "promised" }),
	}}
	got, _, err := world.NewView(w, time.Time{}, runtimes.NewLearner()).Refusals(asks)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"free": "", "full": "Insufficient cpu", "promised": "Insufficient cpu", "small": "Insufficient cpu, Insufficient memory",
		"plain": "Insufficient example.com/gpu", "crowded": "Too many pods", "tainted": "untolerated taint own=team:NoSchedule",
		"batch": "accepts only batch pods, if its scheduler has the plugin NodeClass", "shunned": got["shunned"],
	}
	if diff := cmp.Diff(want, got); diff != "" || want["shunned"] == "" {
		t.Errorf("shunned by %q; (-want +got):\n%s", want["shunned"], diff)
	}
}

// TestANodeThatLacksResourcesSaysHowMuchThereIs has nodes with just enough and with a little less, a node that another reason
// excludes, and one on which others request more than there is.
func TestANodeThatLacksResourcesSaysHowMuchThereIs(t *testing.T) {
	const gpu = corev1.ResourceName("example.com/gpu")
	devices := func(n string) func(*corev1.Node) {
		return func(node *corev1.Node) { node.Status.Allocatable[gpu] = resource.MustParse(n) }
	}
	nodes := map[string]*corev1.Node{
		"enough": fixtures.Node("enough", 4000, 1<<30, devices("2")),
		"less":   fixtures.Node("less", 3999, 1<<30-1, devices("1")),
		"used":   fixtures.Node("used", 8000, 1<<31, devices("4")),
		"full":   fixtures.Node("full", 8000, 1<<31, devices("4")),
		"tainted": fixtures.Node("tainted", 10, 10, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
		}),
		"crowded": fixtures.Node("crowded", 8000, 1<<31, devices("4"), func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("0") }),
	}
	asking := func(name string, milliCPU int64, change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod(name, milliCPU, 1<<30, append(change, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("2") })...)
	}
	asks := asking("asks", 4000)
	other := asking("other", 5000, func(p *corev1.Pod) { p.Spec.NodeName = "used" })
	many := asking("many", 9000, func(p *corev1.Pod) { p.Spec.NodeName = "full" })
	why, got, err := world.NewView(&world.World{Nodes: nodes, Pods: []*corev1.Pod{asks, other, many}}, time.Time{}, runtimes.NewLearner()).Refusals(asks)
	if err != nil {
		t.Fatal(err)
	}
	want := []world.Shortage{
		{Node: "full", Resource: "cpu", Requested: 4000, Free: 0, Allocatable: 8000},
		{Node: "less", Resource: "cpu", Requested: 4000, Free: 3999, Allocatable: 3999},
		{Node: "less", Resource: "memory", Requested: 1 << 30, Free: 1<<30 - 1, Allocatable: 1<<30 - 1},
		{Node: "less", Resource: gpu, Requested: 2, Free: 1, Allocatable: 1},
		{Node: "used", Resource: "cpu", Requested: 4000, Free: 3000, Allocatable: 8000},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if why["enough"] != "" || why["less"] != "Insufficient cpu, Insufficient memory, Insufficient example.com/gpu" || why["crowded"] != "Too many pods" {
		t.Errorf("the reasons are %q", why)
	}
}

// TestPodsThatAreBeingDeletedKeepTheirRoomAndDoNotCountForTopologySpread checks the zone that the scheduler refuses: with
// the pod that leaves zone a, both zones would have one.
func TestPodsThatAreBeingDeletedKeepTheirRoomAndDoNotCountForTopologySpread(t *testing.T) {
	zone := func(name string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = name }
	}
	web := func(p *corev1.Pod) { p.Labels["app"] = "web" }
	spread := func(p *corev1.Pod) {
		web(p)
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}
	on := func(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod(name, 1500, 1<<20, append(change, web, func(p *corev1.Pod) { p.Spec.NodeName = node })...)
	}
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	nodes := map[string]*corev1.Node{"a": fixtures.Node("a", 4000, 1<<30, zone("a")), "b": fixtures.Node("b", 4000, 1<<30, zone("b"))}
	refused := func(asks *corev1.Pod) map[string]string {
		w := &world.World{Nodes: nodes, Pods: []*corev1.Pod{asks, on("old", "a", leaving), on("new", "b")}}
		got, _, err := world.NewView(w, time.Time{}, runtimes.NewLearner()).Refusals(asks)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if diff := cmp.Diff(map[string]string{"a": "", "b": "topology spread over topology.kubernetes.io/zone exceeds skew 1"}, refused(fixtures.Pod("p", 1000, 1<<20, spread))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := refused(fixtures.Pod("p", 3000, 1<<20)); got["a"] != "Insufficient cpu" {
		t.Errorf("node a is refused by %q, want the room of the pod that leaves to count as taken", got["a"])
	}
}

// TestRoomThatIsPromisedToAPodOfLowerPriorityIsFree checks what kube-scheduler does with nominated pods.
func TestRoomThatIsPromisedToAPodOfLowerPriorityIsFree(t *testing.T) {
	nodes := map[string]*corev1.Node{"a": fixtures.Node("a", 4000, 1<<30)}
	of := func(priority int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &priority } }
	promised := fixtures.Pod("promised", 3000, 1<<20, of(10), func(p *corev1.Pod) { p.Status.NominatedNodeName = "a" })
	for priority, want := range map[int32]string{5: "Insufficient cpu", 10: "Insufficient cpu", 11: ""} {
		asks := fixtures.Pod("asks", 3000, 1<<20, of(priority))
		got, _, err := world.NewView(&world.World{Nodes: nodes, Pods: []*corev1.Pod{asks, promised}}, time.Time{}, runtimes.NewLearner()).Refusals(asks)
		if err != nil || got["a"] != want {
			t.Errorf("a pod of priority %d is refused by %q (%v), want %q", priority, got["a"], err, want)
		}
	}
}

// TestAPodThatIsOnlyPromisedToANodeSatisfiesNoAffinityAndNoTopologySpreadElsewhere checks what kube-scheduler does: a pod
// must fit with the pods that are nominated to the node, and without them, and those nominated to other nodes do not count.
func TestAPodThatIsOnlyPromisedToANodeSatisfiesNoAffinityAndNoTopologySpreadElsewhere(t *testing.T) {
	zone := func(name string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = name }
	}
	nodes := map[string]*corev1.Node{"a": fixtures.Node("a", 4000, 1<<30, zone("a")), "b": fixtures.Node("b", 4000, 1<<30, zone("b"))}
	web := func(p *corev1.Pod) { p.Labels["app"] = "web" }
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	term := []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: corev1.LabelTopologyZone}}
	near := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
	}
	apart := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
	}
	spread := func(p *corev1.Pod) {
		web(p)
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}}
	}
	promised := *fixtures.Pod("promised", 100, 1<<20, web, func(p *corev1.Pod) { p.Status.NominatedNodeName = "a" })
	bound := *fixtures.Pod("bound", 100, 1<<20, web, func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "bound", "b" })
	const skew = "topology spread over topology.kubernetes.io/zone exceeds skew 1"
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		want map[string]bool // whether a node takes it
	}{
		{"affinity", near, map[string]bool{"a": false, "b": true}},
		{"anti-affinity", apart, map[string]bool{"a": false, "b": false}},
		{"topology spread", spread, map[string]bool{"a": true, "b": false}},
	} {
		asks := fixtures.Pod("asks", 100, 1<<20, tc.pod, func(p *corev1.Pod) { p.UID = "asks" })
		got, _, err := world.NewView(&world.World{Nodes: nodes, Pods: []*corev1.Pod{asks, &promised, &bound}}, time.Time{}, runtimes.NewLearner()).Refusals(asks)
		if err != nil {
			t.Fatal(err)
		}
		for node, takes := range tc.want {
			if (got[node] == "") != takes || tc.name == "topology spread" && !takes && got[node] != skew {
				t.Errorf("%s: node %s is refused by %q, want it to take the pod: %t", tc.name, node, got[node], takes)
			}
		}
	}
}
