package plugins_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

// withArguments is the strict configuration with arguments of a stock plugin.
func withArguments(plugin, arguments string) string {
	return scheduling.StrictConfiguration + "  pluginConfig:\n  - name: " + plugin + "\n    args: " + arguments + "\n"
}

func inZone(z string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = z }
}

// placeNarrowed is place, and checks that only one node is evaluated.
func placeNarrowed(t *testing.T, s *scheduling.Scheduler, want string, pod *corev1.Pod) {
	t.Helper()
	if a := place(t, s, want, pod); a.Evaluated != 1 {
		t.Errorf("pod %s: %d nodes were checked, want 1", pod.Name, a.Evaluated)
	}
}

// TestArgumentsOfTheFiltersHoldWhileNarrowed has filters that reject nodes also for pods that only request resources.
func TestArgumentsOfTheFiltersHoldWhileNarrowed(t *testing.T) {
	t.Run("an added affinity", func(t *testing.T) {
		s := scheduling.NewScheduler(t, withArguments("NodeAffinity",
			"{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
				"[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}}}"), clock.RealClock{})
		s.AddNode(fixtures.Node("tight", 4000, 2*gi, inZone("b")))
		s.AddNode(fixtures.Node("good", 4000, 8*gi, inZone("a")))
		placeNarrowed(t, s, "good", fixtures.Pod("p", 100, gi))
		placeNarrowed(t, s, "good", fixtures.Pod("job", 100, gi, fixtures.Batch("5m")))
	})
	t.Run("an added preference", func(t *testing.T) {
		s := scheduling.NewScheduler(t, withArguments("NodeAffinity",
			"{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: "+
				"{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}}]}}"), clock.RealClock{})
		s.AddNode(fixtures.Node("b", 4000, 8*gi, inZone("b")))
		s.AddNode(fixtures.Node("c", 4000, 8*gi, inZone("a")))
		place(t, s, "c", fixtures.Pod("p", 100, gi))
	})
	t.Run("hard spreading by default", func(t *testing.T) {
		s := scheduling.NewScheduler(t, withArguments("PodTopologySpread",
			"{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}"), clock.RealClock{})
		s.AddNode(fixtures.Node("tight", 4000, 4*gi, inZone("a")))
		s.AddNode(fixtures.Node("large", 4000, 8*gi, inZone("b")))
		serveWeb(t, s)
		placeNarrowed(t, s, "tight", fixtures.Pod("first", 100, gi, web))
		placeNarrowed(t, s, "large", fixtures.Pod("second", 100, gi, web))
		placeNarrowed(t, s, "tight", fixtures.Pod("not-served", 100, gi))
	})
}

// TestRequiredAntiAffinityMattersToThePodsItSelects has a pod on the tightest node that repels pods of one app. All
// others are narrowed to that node.
func TestRequiredAntiAffinityMattersToThePodsItSelects(t *testing.T) {
	inNamespace := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = name } }
	elsewhere := func(change func(*corev1.PodAffinityTerm)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			apart(true)(p)
			change(&p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0])
		}
	}
	teams := &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "team"}}
	for _, tc := range []struct {
		name     string
		running  func(*corev1.Pod)
		incoming []func(*corev1.Pod)
		want     string
	}{
		{"a pod that it selects", apart(true), []func(*corev1.Pod){web}, "large"},
		{"a pod with other labels", apart(true), nil, "tight"},
		{"a pod of another namespace", apart(true), []func(*corev1.Pod){web, inNamespace("team-a")}, "tight"},
		{"a pod of a namespace that it names", elsewhere(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"team-a"} }),
			[]func(*corev1.Pod){web, inNamespace("team-a")}, "large"},
		{"a pod of a namespace that it selects", elsewhere(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = teams }),
			[]func(*corev1.Pod){web, inNamespace("team-a")}, "large"},
		{"a pod of a namespace that it does not select", elsewhere(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = teams }),
			[]func(*corev1.Pod){web}, "tight"},
		{"a pod of any namespace when it selects all", elsewhere(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} }),
			[]func(*corev1.Pod){web, inNamespace("team-b")}, "large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clock.RealClock{})
			makeNamespaces(t, s, map[string]map[string]string{"default": nil, "team-a": {"kind": "team"}, "team-b": nil})
			s.AddNode(fixtures.Node("tight", 4000, 4*gi))
			s.AddNode(fixtures.Node("large", 4000, 8*gi))
			running := fixtures.Pod("running", 100, gi, tc.running)
			running.Spec.NodeName = "tight"
			if err := s.AddPod(running); err != nil {
				t.Fatal(err)
			}
			placeNarrowed(t, s, tc.want, fixtures.Pod("p", 100, gi, tc.incoming...))
		})
	}
}

// makeNamespaces lets the scheduler observe namespaces with labels.
func makeNamespaces(t *testing.T, s *scheduling.Scheduler, namespaces map[string]map[string]string) {
	t.Helper()
	observed := s.Informers().Core().V1().Namespaces().Informer().GetStore()
	for name, labels := range namespaces {
		if err := observed.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyUnfitNodesEndTheSearch has more unsuitable nodes than are tried one by one.
func TestManyUnfitNodesEndTheSearch(t *testing.T) {
	s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clock.RealClock{})
	for i := range 70 {
		s.AddNode(fixtures.Node(fmt.Sprintf("unfit-%d", i), 4000, 4*gi, inZone("b")))
	}
	s.AddNode(fixtures.Node("good", 4000, 8*gi, inZone("a")))
	a := place(t, s, "good", fixtures.Pod("p", 100, gi, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"} }))
	if a.Evaluated == 1 {
		t.Error("one node was checked, want all")
	}
}

// liar is a filter with the name of one that admits plain pods, and rejects a node.
type liar struct{}

func (liar) Name() string { return "CheckpointStaging" }

func (liar) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if info.Node().Name == "tight" {
		return fwk.NewStatus(fwk.Unschedulable, "not this one")
	}
	return nil
}

var liarRegistry = frameworkruntime.Registry{
	"CheckpointStaging": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return liar{}, nil },
}

// withLiar replaces CheckpointStaging by the liar, without arguments.
var withLiar = strings.Replace(scheduling.StrictConfiguration, "enabled: [{name: BestFit}, {name: CheckpointStaging}]", "enabled: [{name: BestFit}]", 1)

func newLiedTo(t *testing.T, clk clock.PassiveClock) *scheduling.Scheduler {
	s := scheduling.NewScheduler(t, withLiar, clk, liarRegistry)
	s.AddNode(fixtures.Node("tight", 4000, 2*gi))
	s.AddNode(fixtures.Node("good", 4000, 8*gi))
	return s
}

// failNarrowed makes a pod fail on the node that it was narrowed to.
func failNarrowed(t *testing.T, s *scheduling.Scheduler, pod *corev1.Pod) {
	t.Helper()
	if a := s.Attempt(pod); a.Node != "" || !strings.Contains(fitMessage(a), "the next attempt evaluates all nodes") {
		t.Fatalf("first attempt of %s: %q, %s", pod.Name, a.Node, fitMessage(a))
	}
}

// TestAPodThatFailsWhileNarrowedIsTriedOnAllNodesAndEvictsNobody has a filter that does not behave as the list of known
// filters assumes.
func TestAPodThatFailsWhileNarrowedIsTriedOnAllNodesAndEvictsNobody(t *testing.T) {
	clk := clocktesting.NewFakeClock(noon)
	s := newLiedTo(t, clk)
	victim := fixtures.Pod("victim", 100, gi, func(p *corev1.Pod) {
		low := int32(-10)
		p.Spec.Priority, p.Spec.NodeName = &low, "good"
	})
	if err := s.AddPod(victim); err != nil {
		t.Fatal(err)
	}
	failNarrowed(t, s, fixtures.Pod("p", 100, gi))
	if s.Nominated("good") > 0 {
		t.Error("the pod was nominated to a node, so somebody would be evicted for it")
	}
	place(t, s, "good", fixtures.Pod("p", 100, gi))
	for _, name := range []string{"q", "r"} { // other pods are placed without narrowing
		if a := place(t, s, "good", fixtures.Pod(name, 100, gi)); a.Evaluated == 1 {
			t.Error("pods are narrowed still")
		}
	}
	// After the pause, narrowing is tried again.
	clk.Step(6 * time.Minute)
	failNarrowed(t, s, fixtures.Pod("later", 100, gi))
}

// TestNarrowingComesBackWhenTheCauseOfARejectionIsOver has a transient rejection, as by a pod that was nominated to the
// node after the proof and is gone before the failure is handled.
func TestNarrowingComesBackWhenTheCauseOfARejectionIsOver(t *testing.T) {
	clk := clocktesting.NewFakeClock(noon)
	s := newLiedTo(t, clk)
	failNarrowed(t, s, fixtures.Pod("p", 100, gi))
	if err := s.RemoveNode(fixtures.Node("tight", 4000, 2*gi)); err != nil {
		t.Fatal(err)
	}
	s.AddNode(fixtures.Node("also-good", 4000, 9*gi))
	for _, name := range []string{"p", "q"} {
		if a := place(t, s, "good", fixtures.Pod(name, 100, gi)); a.Evaluated == 1 {
			t.Error("pods are narrowed still")
		}
	}
	clk.Step(6 * time.Minute)
	placeNarrowed(t, s, "good", fixtures.Pod("r", 100, gi))
}

// TestAPodNominatedInBetweenDoesNotEndNarrowing has the proven node rejected while a pod is nominated to it, as if the
// nomination came after the proof.
func TestAPodNominatedInBetweenDoesNotEndNarrowing(t *testing.T) {
	s := newLiedTo(t, clock.RealClock{})
	if err := s.Nominate(fixtures.Pod("n", 1, 1), "tight"); err != nil {
		t.Fatal(err)
	}
	pods := []*corev1.Pod{fixtures.Pod("p", 100, gi), fixtures.Pod("q", 100, gi)}
	for _, p := range pods {
		failNarrowed(t, s, p)
	}
	for _, p := range pods {
		place(t, s, "good", p)
	}
}

// TestNoPodIsSignedForBatching documents a fact: kube-scheduler batches equal pods only in profiles whose plugins all
// sign them, and the packing plugins do not. A profile like the shipped one loses nothing, since PodTopologySpread
// signs no pod either while it spreads the pods of Services by default.
func TestNoPodIsSignedForBatching(t *testing.T) {
	for _, tc := range []struct {
		name, configuration string
		signed              bool
	}{
		{"stock", stockConfiguration, false},
		{"stock without spreading by default", signing, true},
		{"shipped", shipped(t, "kube-scheduler.yaml"), false},
		{"without spreading by default", withArguments("PodTopologySpread", "{defaultingType: List}"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduling.NewScheduler(t, tc.configuration, clock.RealClock{})
			signature := s.Sign(fixtures.Pod("p", 100, gi))
			if (signature != nil) != tc.signed {
				t.Errorf("signature %q, want one: %t", signature, tc.signed)
			}
		})
	}
}
