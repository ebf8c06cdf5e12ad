package constraint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/constraint"
)

const gpu corev1.ResourceName = "example.com/gpu"

func drawResources(t *rapid.T) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, values := range map[corev1.ResourceName][]string{
		corev1.ResourceCPU: {"", "0", "100m", "1500m", "0.0001"}, corev1.ResourceMemory: {"", "1Gi", "100M", "100500m"},
		corev1.ResourceEphemeralStorage: {"", "", "1Gi"}, gpu: {"", "", "0", "2"}, "hugepages-2Mi": {"", "", "4Mi"},
	} {
		if v := oneOf(t, string(name), values...); v != "" {
			list[name] = resource.MustParse(v)
		}
	}
	return list
}

// TestRequestsAreWhatTheSchedulerCounts compares with what a node's books of
// kube-scheduler say after the pod was added.
func TestRequestsAreWhatTheSchedulerCounts(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	rapid.Check(t, func(t *rapid.T) {
		p := pod("web")
		p.Spec.Containers = nil
		container := func() corev1.Container {
			return corev1.Container{Resources: corev1.ResourceRequirements{Requests: drawResources(t)}}
		}
		for range rapid.IntRange(1, 3).Draw(t, "containers") {
			p.Spec.Containers = append(p.Spec.Containers, container())
		}
		for range rapid.IntRange(0, 3).Draw(t, "init containers") {
			c := container()
			c.RestartPolicy = oneOf(t, "restart policy", nil, &always)
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
		if oneIn(t, "overhead", 3) {
			p.Spec.Overhead = drawResources(t)
		}
		if oneIn(t, "pod-level requests", 3) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}}
		}
		want := framework.NewNodeInfo(p).GetRequested()
		milliCPU, memoryBytes, extended := constraint.Requests(p)
		if milliCPU != want.GetMilliCPU() || memoryBytes != want.GetMemory() {
			t.Fatalf("Requests = %d m, %d bytes; kube-scheduler counts %d m, %d bytes", milliCPU, memoryBytes, want.GetMilliCPU(), want.GetMemory())
		}
		var others map[corev1.ResourceName]int64
		note := func(name corev1.ResourceName, n int64) {
			if n == 0 {
				return
			}
			if others == nil {
				others = map[corev1.ResourceName]int64{}
			}
			others[name] = n
		}
		note(corev1.ResourceEphemeralStorage, want.GetEphemeralStorage())
		for name, n := range want.GetScalarResources() {
			note(name, n)
		}
		if diff := cmp.Diff(others, extended); diff != "" {
			t.Fatalf("extended resources (-kube-scheduler +Requests):\n%s", diff)
		}
	})
}

func TestRequestsOfAPodWithASidecarAnInitContainerAndOverhead(t *testing.T) {
	cpu := func(v string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(v)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	p := pod("web", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = cpu("500m")
		p.Spec.InitContainers = []corev1.Container{
			{Name: "sidecar", Resources: cpu("100m"), RestartPolicy: &always},
			{Name: "init", Resources: cpu("2")}, // runs beside the sidecar, before the main container
		}
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	})
	milliCPU, memoryBytes, extended := constraint.Requests(p)
	if milliCPU != 2150 || memoryBytes != 0 || extended != nil {
		t.Errorf("Requests = %d m, %d bytes, %v; want 2150 m, nothing else", milliCPU, memoryBytes, extended)
	}
}
