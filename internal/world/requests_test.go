package world

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
