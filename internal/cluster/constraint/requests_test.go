package constraint_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/constraint"
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

// drawStatus gives a pod the container statuses that a kubelet reports, in any state of a resize.
func drawStatus(t *rapid.T, p *corev1.Pod) {
	state := func(name string) corev1.ContainerStatus {
		s := corev1.ContainerStatus{Name: name}
		if oneIn(t, "allocated", 2) {
			s.AllocatedResources = drawResources(t)
		}
		if oneIn(t, "actual", 2) {
			s.Resources = &corev1.ResourceRequirements{Requests: drawResources(t)}
		}
		return s
	}
	for i := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, state(p.Spec.Containers[i].Name))
	}
	for i := range p.Spec.InitContainers {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, state(p.Spec.InitContainers[i].Name))
	}
	if p.Spec.Resources != nil && oneIn(t, "pod-level status", 2) {
		p.Status.AllocatedResources = drawResources(t)
		p.Status.Resources = &corev1.ResourceRequirements{Requests: drawResources(t)}
	}
	if reason := oneOf(t, "resize", "", corev1.PodReasonDeferred, corev1.PodReasonInfeasible); reason != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
	}
}

// TestRequestsAreWhatTheSchedulerCounts compares with kube-scheduler's NodeInfo after the pod was added.
func TestRequestsAreWhatTheSchedulerCounts(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.NodeDeclaredFeatures: true, features.InPlacePodLevelResourcesVerticalScaling: true,
	})
	rapid.Check(t, func(t *rapid.T) {
		p := pod("web")
		p.Spec.Containers = nil
		named := 0
		container := func() corev1.Container {
			named++
			return corev1.Container{Name: fmt.Sprintf("c%d", named), Resources: corev1.ResourceRequirements{Requests: drawResources(t)}}
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
		if oneIn(t, "has run", 2) {
			drawStatus(t, p)
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

func TestAPodThatIsBeingResizedTakesTheRoomThatItHolds(t *testing.T) {
	cpu := func(v string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(v)}
	}
	tests := []struct {
		name                          string
		requested, allocated, running string
		resize                        string
		want                          int64
	}{
		{"it shrinks and has not shrunk yet", "500m", "500m", "2", "", 2000},
		{"it shrinks and the kubelet has not taken note", "500m", "2", "2", "", 2000},
		{"it grows and has not grown yet", "2", "2", "500m", "", 2000},
		{"it would grow later", "2", "500m", "500m", corev1.PodReasonDeferred, 2000},
		{"it can never grow on this node", "2", "500m", "500m", corev1.PodReasonInfeasible, 500},
		{"it has been resized", "500m", "500m", "500m", "", 500},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := pod("web", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = cpu(tc.requested) })
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: p.Spec.Containers[0].Name, AllocatedResources: cpu(tc.allocated), Resources: &corev1.ResourceRequirements{Requests: cpu(tc.running)},
			}}
			if tc.resize != "" {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: tc.resize}}
			}
			if milliCPU, _, _ := constraint.Requests(p); milliCPU != tc.want {
				t.Errorf("Requests = %d m, want %d m", milliCPU, tc.want)
			}
		})
	}
}

// TestDefaultRequestsAreThoseThatTheAPIServerSets compares with the defaults of the API server itself.
func TestDefaultRequestsAreThoseThatTheAPIServerSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := func() corev1.ResourceList { // in a valid pod, requests and limits of huge pages are equal
			list := drawResources(t)
			delete(list, "hugepages-2Mi")
			return list
		}
		draw := func(name string) corev1.Container {
			return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: amounts(), Limits: amounts()}}
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{draw("a"), draw("b")}, InitContainers: []corev1.Container{draw("i")}}}
		if oneIn(t, "sidecar", 2) {
			pod.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		if oneIn(t, "pod level", 2) {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts(), Limits: amounts()}
		}
		want, before := pod.DeepCopy(), pod.DeepCopy()
		corev1defaults.SetDefaults_Pod(want)
		got := &corev1.Pod{Spec: *pod.Spec.DeepCopy()}
		constraint.DefaultRequests(&got.Spec)
		type sizes struct {
			CPU, Memory int64
			Others      map[corev1.ResourceName]int64
		}
		of := func(p *corev1.Pod) (s sizes) { s.CPU, s.Memory, s.Others = constraint.Requests(p); return s }
		if diff := cmp.Diff(of(want), of(got)); diff != "" {
			t.Fatalf("%+v\n(-want +got):\n%s", before.Spec, diff)
		}
	})
}
