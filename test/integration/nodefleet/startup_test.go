package nodefleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// tainted makes the nodes of a flavor join with a taint. unstated hides it from the autoscaler.
func tainted(key string) func(*spec) {
	return func(s *spec) { s.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
}

// unstated removes the annotation of a MachineDeployment that lists the taints of its nodes.
func (b *bench) unstated(flavor string) {
	b.Helper()
	b.annotate(flavor, "capacity.cluster-autoscaler.kubernetes.io/taints", "null")
}

// untaint removes a taint from the nodes that have started.
func (b *bench) untaint(key string, started func(*corev1.Node) bool) {
	b.Helper()
	is := func(t corev1.Taint) bool { return t.Key == key }
	for _, n := range b.Nodes() {
		if !slices.ContainsFunc(n.Spec.Taints, is) || !started(&n) {
			continue
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, is)
		if err := b.Update(b.Context(), &n); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // otherwise retried at the next poll
			b.Fatalf("remove taint %s from node %s: %v", key, n.Name, err)
		}
	}
}

// passed waits for a time, and calls meanwhile.
func (b *bench) passed(d time.Duration) {
	b.Helper()
	end := time.Now().Add(d)
	b.Eventually(fmt.Sprintf("%v pass", d), func() string {
		if left := time.Until(end); left > 0 {
			return fmt.Sprintf("%v left", left)
		}
		return ""
	})
}

// TestNoOtherMachineIsBoughtWhileADriverOfANodeStarts has nodes whose driver removes its taint only after the
// nominations of pods for the ready nodes have expired.
func TestNoOtherMachineIsBoughtWhileADriverOfANodeStarts(t *testing.T) {
	t.Parallel()
	b := newBench(t, "driver")
	const taint = "ebs.csi.aws.com/agent-not-ready"
	b.flavor("cheap", "2", "4Gi", "0.10", tainted(taint))
	b.flavor("dear", "2", "4Gi", "0.30")
	b.unstated("cheap")
	highest := b.highest()
	b.fleet("all")
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	node := b.named("cheap", 1)[0]
	b.Eventually("the node is ready", func() string {
		n := &corev1.Node{}
		if err := b.Get(t.Context(), client.ObjectKey{Name: node}, n); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return "not ready"
		}
		return ""
	})
	b.passed(20 * time.Second)
	b.pods("q", 1, "50m", "1Gi") // it has room there, too, once the driver has started
	b.passed(5 * time.Second)
	if each, _ := highest(); !cmp.Equal(map[string]int{"cheap": 1}, each) {
		t.Errorf("while the node started, there were to be %v machines", each)
	}
	b.untaint(taint, func(*corev1.Node) bool { return true })
	b.Runs(2)
	if each, _ := highest(); !cmp.Equal(map[string]int{"cheap": 1}, each) {
		t.Errorf("there were to be %v machines", each)
	}
}

func TestATaintThatNobodyRemovesIsToldAndAnotherMachineBought(t *testing.T) {
	t.Parallel()
	b := newBench(t, "remains")
	const taint = "nvidia.com/driver-not-ready"
	b.flavor("cheap", "2", "4Gi", "0.10", tainted(taint))
	b.flavor("dear", "2", "4Gi", "0.30")
	b.unstated("cheap")
	highest := b.highest()
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) { s.Scaling.JoinTimeout, s.Scaling.BackOff = seconds(15), seconds(3600) })
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.Runs(1)
	if each, _ := highest(); !cmp.Equal(map[string]int{"cheap": 1, "dear": 1}, each) {
		t.Errorf("there were to be %v machines, want one of each, one after the other", each)
	}
	if note := b.event("TaintRemains"); !strings.Contains(note, taint) {
		t.Errorf("the Event says %q", note)
	}
	b.becomes(map[string]int{"dear": 1})
}

// startup is a taint that repels pods until everything else that a machine runs is on it.
const startup = "startup-taint.cluster-autoscaler.kubernetes.io/test"

// TestWhatStaticPodsTakeOfMachinesIsLearned has pods that fit the size of a flavor, but not the room that
// static pods leave.
func TestWhatStaticPodsTakeOfMachinesIsLearned(t *testing.T) {
	t.Parallel()
	b := newBench(t, "static")
	b.flavor("tight", "2", "4Gi", "0.10", tainted(startup))
	b.unstated("tight")
	highest := b.highest()
	b.Meanwhile = func() {
		b.untaint(startup, func(n *corev1.Node) bool {
			pod := b.pod("proxy-"+n.Name, "250m", "128Mi")
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "checksum"}
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID, Controller: new(true)}}
			pod.Spec.NodeName = n.Name
			if err := b.Create(b.Context(), pod); err != nil && !apierrors.IsAlreadyExists(err) {
				b.Fatalf("make the mirror pod of node %s: %v", n.Name, err)
			}
			return true
		})
	}
	b.fleet("all")
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.named("tight", 1)
	if note := b.event("NoMachineFits"); !strings.Contains(note, "too small (CPU)") {
		t.Errorf("the Event says %q", note)
	}
	b.becomes(map[string]int{}) // it is empty
	seen := b.flavorStatus("all", "tight").Seen
	if seen == nil || seen.CPU.MilliValue() != 1750 || seen.MaxPods != 109 {
		t.Errorf("what was seen of the flavor is %+v", seen)
	}
	b.pods("q", 1, "1900m", "1Gi")
	b.Eventually("both pods are pending", func() string { return cmp.Diff(int32(2), b.get("all").Status.PendingPods) })
	b.flavor("wide", "5", "8Gi", "0.30")
	b.Eventually("both pods run", func() string { return cmp.Diff(2, len(b.Running())) })
	if each, _ := highest(); !cmp.Equal(map[string]int{"tight": 1, "wide": 1}, each) {
		t.Errorf("there were to be %v machines, want one of each", each)
	}
}

// TestAMachineThatDoesNotHoldItsPodIsNotBoughtAgainForIt has a DaemonSet whose template has no requests, and
// a LimitRange that adds requests to its pods. When the first machine is released, no pod shows that any more.
func TestAMachineThatDoesNotHoldItsPodIsNotBoughtAgainForIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "holds")
	b.flavor("tight", "2", "4Gi", "0.10", tainted(startup))
	b.unstated("tight")
	highest := b.highest()
	b.Make(&corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "defaults"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")},
		}}},
	})
	agent := b.pod("agent", "1", "1Mi", func(p *corev1.Pod) {
		p.Labels["app"] = "agent"
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	b.Make(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: agent.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: agent.Labels}, Spec: agent.Spec},
		},
	})
	agents := map[string]bool{}
	b.Meanwhile = func() {
		for _, p := range b.Pods() {
			agents[p.Spec.NodeName] = agents[p.Spec.NodeName] || p.Labels["app"] == "agent"
		}
		b.untaint(startup, func(n *corev1.Node) bool { return agents[n.Name] })
	}
	b.fleet("all")
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.event("NoMachineFits")
	b.becomes(map[string]int{}) // it is empty
	b.pods("q", 1, "1950m", "1Gi")
	b.Eventually("both pods are pending", func() string { return cmp.Diff(int32(2), b.get("all").Status.PendingPods) })
	b.flavor("wide", "5", "8Gi", "0.30")
	b.Eventually("both pods run", func() string {
		n := 0
		for _, p := range b.Pods() {
			if p.Labels["app"] != "agent" && p.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		return cmp.Diff(2, n)
	})
	if each, _ := highest(); !cmp.Equal(map[string]int{"tight": 1, "wide": 1}, each) {
		t.Errorf("there were to be %v machines, want one of each", each)
	}
}
