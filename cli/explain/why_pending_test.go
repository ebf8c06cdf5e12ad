package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
)

// TestAPodThatNoNodeHasRoomForIsToldWhatItRequestsAndWhatNodesHave has a pod of 9 cores, nodes of 8 and 16, and pods on them.
func TestAPodThatNoNodeHasRoomForIsToldWhatItRequestsAndWhatNodesHave(t *testing.T) {
	asks := fixtures.Pod("p", 9000, 1<<30, reported("0/3 nodes are available: 3 Insufficient cpu."))
	nodes := func(change ...func(*corev1.Node)) given {
		return func(_ *WhyInput, w *world.World) {
			w.Nodes = map[string]*corev1.Node{"a": fixtures.Node("a", 8000, 8<<30, change...), "b": fixtures.Node("b", 16000, 8<<30), "c": fixtures.Node("c", 4000, 8<<30)}
		}
	}
	taken := others(
		fixtures.Pod("on-a", 4500, 1<<20, func(p *corev1.Pod) { p.Spec.NodeName, p.UID = "a", "on-a" }),
		fixtures.Pod("on-b", 13000, 1<<20, func(p *corev1.Pod) { p.Spec.NodeName, p.UID = "b", "on-b" }),
	)
	const all = "  The nodes now:\n     3  Insufficient cpu: a, b, c\n  It requests 9 CPUs; of the 3 nodes with too little free, c has the most free: 4 of 4. The largest of them, b, has 3 of 16 free.\n"
	says(t, say(t, asks, nodes(), taken), all)
	// Node b has room: nothing has to be said about the others.
	says(t, say(t, asks, nodes()), "     1  would accept it now: b\n     2  Insufficient cpu: a, c\n", "!It requests")
	// A taint excludes node a, so its room is no reason.
	says(t, say(t, asks, taken, nodes(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
	})), "of the 2 nodes with too little free, c has the most free: 4 of 4. The largest of them, b, has 3 of 16 free.\n")
	devices := fixtures.Pod("p", 100, 1<<30, reported("0/3 nodes are available: 3 Insufficient example.com/gpu."), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("2")
	})
	says(t, say(t, devices, nodes()), "  It requests 2 example.com/gpu; the 3 nodes with too little free have none.\n")
	says(t, say(t, devices, nodes(func(n *corev1.Node) { n.Status.Allocatable["example.com/gpu"] = resource.MustParse("1") })),
		"  It requests 2 example.com/gpu; of the 3 nodes with too little free, a has the most free: 1 of 1.\n")
	// What the scheduler reports is not said of nodes that have room now.
	says(t, say(t, fixtures.Pod("p", 100, 1<<30, unschedulable), nodes()), "2  Insufficient cpu\n", "!It requests")
}

// TestAPodOfADaemonSetIsExplainedByItsNode has the node that its controller has chosen, and one of another one.
func TestAPodOfADaemonSetIsExplainedByItsNode(t *testing.T) {
	short := reported("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.")
	large := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
	}
	text := say(t, daemonOn("a", short, large))
	says(t, text,
		`  What helps against "Insufficient cpu": fewer other pods on its node, a higher priority than theirs (priorityClassName in the DaemonSet), or lower requests in the DaemonSet.`,
		"That node now:\n     1  Insufficient cpu: a\n  It requests 3 CPUs; node a has 2 of 2 free.\n", "!metadata.name", "!: b", "!larger nodes")
	tainted := say(t, daemonOn("a", reported("0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) didn't satisfy plugin(s) [NodeAffinity].")), func(_ *WhyInput, w *world.World) {
		w.Nodes["a"].Spec.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
	})
	says(t, tainted, `What helps against "node(s) had untolerated taint(s)": a toleration in the DaemonSet, or the removal of the taint from its node.`, "1  untolerated taint own:NoSchedule: a\n")
	// A pod that is not of a DaemonSet may have such an affinity too, and its owner can change that.
	own := daemonOn("a", short, large, func(p *corev1.Pod) { p.OwnerReferences = nil })
	says(t, say(t, own), "metadata.name", "larger nodes", "  The nodes now:\n")
	list := func(pod *corev1.Pod) string {
		return printed(t, PendingPods{Pods: []Why{NewWhy(input(pod))}}.Write)
	}
	says(t, list(daemonOn("a", short, large)), "Node a has too little free CPU\n", "!affinity")
	says(t, list(own), "excluded by the pod's affinity to names of nodes")
}

func TestOnlyAnAffinityToOneNameInEachTermMakesTheNodeOfADaemonSetPod(t *testing.T) {
	named := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: names}}}
	}
	not := named("a")
	not.MatchFields[0].Operator = corev1.NodeSelectorOpNotIn
	labelled := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}
	both := named("a")
	both.MatchExpressions = labelled.MatchExpressions
	for _, tc := range []struct {
		name  string
		terms []corev1.NodeSelectorTerm
		want  string
	}{
		{"as the controller makes it", []corev1.NodeSelectorTerm{named("a")}, "a"},
		{"with labels, in two terms", []corev1.NodeSelectorTerm{both, named("a")}, "a"},
		{"two names", []corev1.NodeSelectorTerm{named("a", "b")}, ""},
		{"two terms with different names", []corev1.NodeSelectorTerm{named("a"), named("b")}, ""},
		{"one term without a name", []corev1.NodeSelectorTerm{named("a"), labelled}, ""},
		{"every other name", []corev1.NodeSelectorTerm{not}, ""},
		{"no terms", nil, ""},
	} {
		pod := daemonOn("x", func(p *corev1.Pod) {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = tc.terms
		})
		if got := onlyNode(pod); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := onlyNode(pending()); got != "" || strings.Contains(say(t, pending(unschedulable)), "DaemonSet") {
		t.Errorf("a pod of no DaemonSet is for node %q only", got)
	}
}
