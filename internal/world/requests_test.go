package world

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/runtimes"
)

// TestTheFirstResourceByNameStandsForThoseThatPlansLack: plans consider ephemeral storage, and no other resource besides CPU
// and memory.
func TestTheFirstResourceByNameStandsForThoseThatPlansLack(t *testing.T) {
	tests := []struct {
		name  string
		asks  map[corev1.ResourceName]string
		other corev1.ResourceName
		disk  int64
	}{
		{name: "CPU and memory", asks: map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi"}},
		{name: "ephemeral storage", asks: map[corev1.ResourceName]string{"ephemeral-storage": "5"}, disk: 5},
		{name: "two others", asks: map[corev1.ResourceName]string{"b.example/x": "1", "a.example/x": "1"}, other: "a.example/x"},
		{name: "all", asks: map[corev1.ResourceName]string{"x.example/gpu": "1", "ephemeral-storage": "7"}, other: "x.example/gpu", disk: 7},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			list := corev1.ResourceList{}
			for name, amount := range tc.asks {
				list[name] = resource.MustParse(amount)
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}}}
			if got := askedOf(pod); got.other != tc.other || got.disk != tc.disk {
				t.Errorf("it requests %+v, want %+v", got, tc)
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
