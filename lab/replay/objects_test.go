package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/report"
)

func TestPodOfCarriesWhatTheRowSays(t *testing.T) {
	row := trace.Pod{Item: packing.Item{Name: "a", Size: packing.Size{MilliCPU: 3152, MemoryBytes: 5600 << 20}}, Class: class.Batch, Category: "train", Arch: "arm64"}
	pod := PodOf(row, 1500*time.Millisecond, Options{Namespace: "ns", Run: "r", SchedulerName: "s", NodeSelector: map[string]string{"disk": "ssd"}})

	wantLabels := map[string]string{LabelRun: "r", v1alpha1.LabelClass: "batch"}
	if diff := cmp.Diff(wantLabels, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantAnnotations := map[string]string{v1alpha1.AnnotationRuntime: "1.5s", v1alpha1.AnnotationCategory: "train"}
	if diff := cmp.Diff(wantAnnotations, pod.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	requests := pod.Spec.Containers[0].Resources.Requests
	if cpu, memory := requests.Cpu().String(), requests.Memory().String(); cpu != "3152m" || memory != "5600Mi" {
		t.Errorf("requests are %s and %s, want 3152m and 5600Mi", cpu, memory)
	}
	if pod.Spec.NodeSelector[corev1.LabelArchStable] != "arm64" || pod.Spec.NodeSelector["disk"] != "ssd" || pod.Spec.SchedulerName != "s" || pod.Namespace != "ns" {
		t.Errorf("selector, scheduler or namespace is wrong: %+v", pod.Spec)
	}
	if *pod.Spec.TerminationGracePeriodSeconds != 0 || *pod.Spec.AutomountServiceAccountToken || pod.Spec.Tolerations != nil {
		t.Errorf("grace period, token or tolerations are wrong: %+v", pod.Spec)
	}
}

func TestPodOfLeavesOutWhatTheRowDoesNotSay(t *testing.T) {
	pod := PodOf(trace.Pod{Item: packing.Item{Name: "a"}}, time.Second, Options{Run: "r"})
	if len(pod.Labels) != 1 || len(pod.Annotations) != 1 || pod.Spec.NodeSelector != nil {
		t.Errorf("labels %v, annotations %v, selector %v, want only the run and the runtime", pod.Labels, pod.Annotations, pod.Spec.NodeSelector)
	}
}

func node(name, price, cpu string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if price != "" {
		n.Annotations = map[string]string{v1alpha1.AnnotationPricePerHour: price}
	}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("4Gi"),
	}
	return n
}

func TestMachinesReadsNodes(t *testing.T) {
	got, err := Machines([]corev1.Node{node("a", "0.1785", "3920m"), node("b", "0", "2")})
	if err != nil {
		t.Fatal(err)
	}
	want := []report.Machine{
		{Name: "a", MilliCPU: 3920, MemoryBytes: 4 << 30, MicroDollarsPerHour: 178_500},
		{Name: "b", MilliCPU: 2000, MemoryBytes: 4 << 30},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
}

func TestMachinesNamesEveryNodeThatWillNotDo(t *testing.T) {
	_, err := Machines([]corev1.Node{node("a", "", "1"), node("b", "-1", "1"), node("c", "much", "1"), node("d", "1", "0")})
	for _, want := range []string{"node a: has no annotation", `node b: annotation supercargo.dev/price-per-hour is "-1"`, "node c:", "node d: has no allocatable"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want it to contain %q", err, want)
		}
	}
}
