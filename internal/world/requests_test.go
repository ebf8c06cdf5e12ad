package world

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
)

// TestTheFirstResourceByNameStandsForThoseWithoutASlot has a slot for x.example/gpu.
func TestTheFirstResourceByNameStandsForThoseWithoutASlot(t *testing.T) {
	tests := []struct {
		name  string
		asks  map[corev1.ResourceName]string
		other corev1.ResourceName
		disk  int64
		gpus  int16
	}{
		{name: "CPU and memory", asks: map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi"}},
		{name: "ephemeral storage", asks: map[corev1.ResourceName]string{"ephemeral-storage": "5"}, disk: 5},
		{name: "two others", asks: map[corev1.ResourceName]string{"b.example/x": "1", "a.example/x": "1"}, other: "a.example/x"},
		{name: "one with a slot", asks: map[corev1.ResourceName]string{"x.example/gpu": "2", "ephemeral-storage": "7"}, gpus: 2, disk: 7},
		{name: "all", asks: map[corev1.ResourceName]string{"x.example/gpu": "1", "y.example/x": "1", "ephemeral-storage": "7"}, other: "y.example/x", gpus: 1, disk: 7},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			list := corev1.ResourceList{}
			for name, amount := range tc.asks {
				list[name] = resource.MustParse(amount)
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}}}
			got := askedOf(pod)
			if size, other := got.sized(extended.Names{"", "x.example/gpu"}); other != tc.other || got.disk != tc.disk || size.Extended != packing.Amounts(0, tc.gpus) {
				t.Errorf("it requests %+v of %+v, and %q, want %+v", size, got, other, tc)
			}
		})
	}
}

// TestAPodOfADaemonSetTakesEphemeralStorageForGood has a node of 10 bytes, of which a DaemonSet's pod requests 4 and another
// one 3.
func TestAPodOfADaemonSetTakesEphemeralStorageForGood(t *testing.T) {
	w, pod := scene()
	requests(corev1.ResourceEphemeralStorage, "3")(w, pod)
	daemon := pod.DeepCopy()
	daemon.Name, daemon.OwnerReferences = "daemon", []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
	requests(corev1.ResourceEphemeralStorage, "4")(w, daemon)
	w.Pods = []*corev1.Pod{pod, daemon}
	w.Nodes["a"].Status.Allocatable = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("10")}
	n := NewView(w, noon, runtimes.NewLearner()).Node(w.Nodes["a"], cluster.Node{Name: "a"})
	if got, want := *n.Host.Disk, (constraint.Disk{Total: 6, Free: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPodsAndNodesHaveTheirGPUs has a node with three GPUs, of which a pod has one and that of a DaemonSet another.
func TestPodsAndNodesHaveTheirGPUs(t *testing.T) {
	w, pod := scene()
	requests(gpu, "1")(w, pod)
	daemon := pod.DeepCopy()
	daemon.Name, daemon.OwnerReferences = "daemon", []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
	w.Pods = []*corev1.Pod{pod, daemon}
	w.Nodes["a"].Status.Allocatable = corev1.ResourceList{gpu: resource.MustParse("3"), "example.com/nic": resource.MustParse("1")}
	v := NewView(w, noon, runtimes.NewLearner())
	n := v.Node(w.Nodes["a"], cluster.Node{Name: "a"})
	if got, want := *v.Extended(), (extended.Names{gpu}); got != want {
		t.Errorf("plans consider %q, want %q: nobody requests the others", got, want)
	}
	if n.Capacity.Extended != packing.Amounts(2) || n.GPUs.Amounts != packing.Amounts(3) || n.Free().Extended != packing.Amounts(1) {
		t.Errorf("pods can use %v of %v, and %v are free; want 2 of 3, and 1", n.Capacity.Extended, n.GPUs, n.Free().Extended)
	}
	if len(n.Pods) != 1 || n.Pods[0].Size.Extended != packing.Amounts(1) {
		t.Errorf("the pods are %+v, want one with a GPU", n.Pods)
	}
}

// TestAResourceKeepsItsSlotWhenAnotherIsRequested observes twice with one memory.
func TestAResourceKeepsItsSlotWhenAnotherIsRequested(t *testing.T) {
	facts := &Facts{}
	for _, asks := range [][]corev1.ResourceName{{gpu}, {"amd.com/gpu", gpu}} {
		w, pod := scene()
		w.Facts = facts
		for _, name := range asks {
			p := pod.DeepCopy()
			requests(name, "1")(w, p)
			w.Pods = append(w.Pods, p)
		}
		if at := NewView(w, noon, runtimes.NewLearner()).Extended()[0]; at != gpu {
			t.Errorf("with pods that request %q, %q is in the slot of %q", asks, at, gpu)
		}
	}
}
