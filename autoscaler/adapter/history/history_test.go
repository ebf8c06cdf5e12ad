package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// node returns a Ready node of type m1 with 4 cores and 8 GiB, of which 3.5 and 7 are
// allocatable.
func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	list := func(cpu, memory, pods string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse(pods)}
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelInstanceTypeStable: "m1"}}}
	n.Status.Capacity, n.Status.Allocatable = list("4", "8Gi", "20"), list("3500m", "7Gi", "10")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(n)
	}
	return n
}

// pod returns a pod that runs on a node and requests CPU.
func pod(name, on, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	p.Spec.NodeName = on
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	p.Status.Phase = corev1.PodRunning
	for _, c := range change {
		c(p)
	}
	return p
}

// until sets the expected finish of a pod.
func until(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationExpectedFinish: at.Format(time.RFC3339)}
	}
}

// lines returns a state, sorted, without the prefix of the names and the type m1.
func lines(s State) []string {
	var all []string
	for k, v := range s {
		line := fmt.Sprintf("%s{%s,%s} %v", strings.TrimPrefix(k.Name, "supercargo_node_"), k.Node, k.Resource, v)
		if k.MachineType != "m1" {
			line += " of " + k.MachineType
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func TestTheStateOfANodeIsWhatItHasAndWhatRunsThere(t *testing.T) {
	got := lines(Of([]*corev1.Node{node("a")}, []*corev1.Pod{
		pod("1", "a", "1", until(noon)), pod("2", "a", "500m", until(noon.Add(time.Hour))), pod("3", "a", "250m"),
		pod("done", "a", "1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("failed", "a", "1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("waits", "", "1"), pod("elsewhere", "gone", "1"),
	}))
	want := []string{
		"allocatable{a,cpu} 3.5", "allocatable{a,memory} 7.516192768e+09", "allocatable{a,pods} 10",
		"available{a,cpu} 1.75", "available{a,memory} 7.516192768e+09", "available{a,pods} 7",
		"capacity{a,cpu} 4", "capacity{a,memory} 8.589934592e+09", "capacity{a,pods} 20",
		"finish_timestamp_seconds{a,} 1.7673588e+09",
		"pods{a,} 3", "ready{a,} 1",
		"requested{a,cpu} 1.75", "requested{a,memory} 0", "requested{a,pods} 3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatAPodRequestsIsThereWhileItHasAPlaceOnANode(t *testing.T) {
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Config", Name: "other"}, {Kind: "ReplicaSet", Name: "web-6c5bd9f4b8", Controller: new(true)}}
	}
	pods := []*corev1.Pod{
		pod("web", "a", "1500m", owned), pod("idle", "a", "0"), pod("waits", "", "1"),
		pod("done", "a", "1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("failed", "a", "1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	}
	of := Key{Name: PodRequested, Node: "a", Resource: "cpu", Namespace: "shop"}
	web, idle := of, of
	web.Pod, web.OwnerKind, web.OwnerName, idle.Pod = "web", "ReplicaSet", "web-6c5bd9f4b8", "idle"
	if diff := cmp.Diff(State{web: 1.5, idle: 0}, OfPods(pods, 2)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := OfPods(pods, 1); got != nil {
		t.Errorf("where there are more than may be there is %v, want nothing", got)
	}
}

func TestANodeThatTakesNoPodsHasNothingAvailable(t *testing.T) {
	for what, change := range map[string]func(*corev1.Node){
		"cordoned":          func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"not Ready":         func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown },
		"no condition yet":  func(n *corev1.Node) { n.Status.Conditions = nil },
		"more than it has":  func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("500m") },
		"another condition": func(n *corev1.Node) { n.Status.Conditions[0].Type = corev1.NodeDiskPressure },
	} {
		s := Of([]*corev1.Node{node("a", change)}, []*corev1.Pod{pod("1", "a", "1")})
		if got := s[Key{Name: Available, Node: "a", MachineType: "m1", Resource: "cpu"}]; got != 0 {
			t.Errorf("%s: %v cores are available, want 0", what, got)
		}
		if got, want := s[Key{Name: Ready, Node: "a", MachineType: "m1"}], map[bool]float64{what == "more than it has": 1}[true]; got != want {
			t.Errorf("%s: ready is %v, want %v", what, got, want)
		}
	}
	own := Of([]*corev1.Node{node("a", func(n *corev1.Node) { n.Labels[v1alpha1.LabelMachineType] = "mine" })}, nil)
	if _, ok := own[Key{Name: Ready, Node: "a", MachineType: "mine"}]; !ok {
		t.Errorf("the project's own label does not win: %v", lines(own))
	}
}

// BenchmarkOf measures 5,000 nodes with ten pods each, as after each change in a large
// cluster.
func BenchmarkOf(b *testing.B) {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for i := range 5000 {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, node(name))
		for j := range 10 {
			pods = append(pods, pod(fmt.Sprint(i, "-", j), name, "100m", until(noon)))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := len(Of(nodes, pods)); got != 5000*15 {
			b.Fatal(got)
		}
		if got := len(OfPods(pods, len(pods))); got != len(pods) {
			b.Fatal(got)
		}
	}
}
