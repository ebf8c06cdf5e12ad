package world

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/fixtures"
)

// TestAPodOfADaemonSetCountsWithWhatItsPodsRequest: its template lacks what the API server and admission add.
func TestAPodOfADaemonSetCountsWithWhatItsPodsRequest(t *testing.T) {
	own := func(generation int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Generation = generation
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
		}
	}
	limit := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}}
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		pods []*corev1.Pod
		want packing.Size
	}{
		{"nothing", corev1.PodSpec{}, nil, packing.Size{}},
		{"limits of a container", corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: limit}}}, nil, packing.Size{MilliCPU: 300}},
		{"limits of the pod", corev1.PodSpec{Resources: &limit, Containers: []corev1.Container{{Name: "main"}}}, nil, packing.Size{MilliCPU: 300}},
		{"what admission adds", corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: limit}}}, []*corev1.Pod{fixtures.Pod("a", 200, 1<<20, own(1))}, packing.Size{MilliCPU: 300, MemoryBytes: 1 << 20}},
		{"a pod that was resized since", corev1.PodSpec{}, []*corev1.Pod{fixtures.Pod("a", 200, 1<<20, own(2))}, packing.Size{}},
		{"the newest of two", corev1.PodSpec{}, []*corev1.Pod{
			fixtures.Pod("a", 200, 1<<20, own(1)),
			fixtures.Pod("b", 100, 1<<20, own(1), func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon) }),
		}, packing.Size{MilliCPU: 100, MemoryBytes: 1 << 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &World{Daemons: []appsv1.DaemonSet{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "agent"}, Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: tc.spec}},
			}}}
			w.Pods = append(w.Pods, tc.pods...)
			if got, _, pods, _ := NewView(w, noon, runtimes.NewLearner()).Overhead(&constraint.Host{}); got != tc.want || pods != 1 {
				t.Errorf("%d pods take %+v, want %+v", pods, got, tc.want)
			}
			if len(tc.spec.Containers) > 0 && w.Daemons[0].Spec.Template.Spec.Containers[0].Resources.Requests != nil {
				t.Error("the DaemonSet was changed")
			}
		})
	}
}

// TestWhatAPodOfADaemonSetRequestedIsRememberedForAnHour: with the last machine, its pods go.
func TestWhatAPodOfADaemonSetRequestedIsRememberedForAnHour(t *testing.T) {
	sizes := &DaemonSizes{}
	set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "agent", Generation: 1}}
	pod := fixtures.Pod("a", 300, 1<<20, func(p *corev1.Pod) {
		p.Generation = 1
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	})
	for _, step := range []struct {
		name  string
		after time.Duration
		pods  []*corev1.Pod
		edit  int64 // generation of the DaemonSet
		want  int64
	}{
		{"before there is a pod", 0, nil, 1, 0},
		{"while there is one", time.Minute, []*corev1.Pod{pod}, 1, 300},
		{"when it is gone", 2 * time.Minute, nil, 1, 300},
		{"after a change of the DaemonSet", 3 * time.Minute, nil, 2, 0},
		{"just within the hour", time.Minute + time.Hour - time.Second, nil, 1, 300},
		{"after an hour", time.Minute + time.Hour, nil, 1, 0},
	} {
		set.Generation = step.edit
		w := &World{Daemons: []appsv1.DaemonSet{set}, Pods: step.pods, DaemonSizes: sizes}
		if got, _, _, _ := NewView(w, noon.Add(step.after), runtimes.NewLearner()).Overhead(&constraint.Host{}); got.MilliCPU != step.want {
			t.Errorf("%s: %d m, want %d m", step.name, got.MilliCPU, step.want)
		}
	}
}
