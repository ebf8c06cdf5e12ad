//go:build kubernetes1.37

package packingsort

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"supercargo.dev/supercargo/test/fixtures"
)

// gang is the queue entry of a gang's pods after the last of them was created.
func gang(t *testing.T, name string, priority int32, pods ...*corev1.Pod) *framework.QueuedPodGroupInfo {
	g := &framework.QueuedPodGroupInfo{PodGroupInfo: podGroupInfo(&schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       schedulingv1beta1.PodGroupSpec{Priority: &priority},
	})}
	for _, pod := range pods {
		fixtures.Gang(name)(pod)
		g.AddPod(queued(t, pod))
		g.Timestamp = pod.CreationTimestamp.Time
	}
	if g.Size() != len(pods) {
		t.Fatalf("the gang %s has %d pods, want %d", name, g.Size(), len(pods))
	}
	return g
}

func TestAGangStandsWhereItsFirstPodWould(t *testing.T) {
	const gi = int64(1) << 30
	pod := func(name string, memory int64, change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod(name, 100, memory, change...)
	}
	second := createdAt(time.Second)
	failed := gang(t, "failed", 0, pod("f-0", 64*gi, createdAt(0)))
	failed.Attempts, failed.Timestamp = 1, epoch.Add(time.Hour)
	for _, tc := range []struct {
		name string
		want []waiting // in order
	}{
		{"by its largest pod among pods created together", []waiting{
			queued(t, pod("large", 32*gi, second)),
			gang(t, "g", 0, pod("g-0", gi, second), pod("g-1", 16*gi, second)),
			queued(t, pod("medium", 8*gi, second))}},
		{"by its oldest pod among equals", []waiting{
			queued(t, pod("before", gi, createdAt(0))),
			gang(t, "g", 0, pod("g-0", gi, createdAt(2*time.Second)), pod("g-1", gi, second)),
			queued(t, pod("after", gi, createdAt(3*time.Second)))}},
		{"by its own priority before all else", []waiting{
			gang(t, "high", 1, pod("h-0", gi, createdAt(time.Hour))),
			queued(t, pod("old", 64*gi, createdAt(0))),
			gang(t, "low", -1, pod("l-0", 64*gi, createdAt(-time.Hour), priority(9)))}},
		{"by name if all is equal", []waiting{
			gang(t, "a", 0, pod("z", gi, second)),
			queued(t, pod("b", gi, second)),
			gang(t, "c", 0, pod("y", gi, second))}},
		{"behind a pod created since it failed", []waiting{queued(t, pod("new", gi, createdAt(time.Hour))), failed}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlugin()
			for i, a := range tc.want {
				for _, b := range tc.want[i+1:] {
					if !p.Less(a, b) || p.Less(b, a) {
						t.Errorf("%v does not stand before %v", nameOf(a), nameOf(b))
					}
				}
			}
		})
	}
}
