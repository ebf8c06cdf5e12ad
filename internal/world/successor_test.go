package world

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/runtimes"
)

// container requests CPU, and limits it if limit is not empty.
func container(name, cpu, limit string) corev1.Container {
	c := corev1.Container{Name: name, Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
	if cpu != "" {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if limit != "" {
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(limit)
	}
	return c
}

// ofSet returns a service pod of ReplicaSet s on node a, created minutes after noon.
func ofSet(name string, minutes int, generation int64, containers ...corev1.Container) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Generation: generation, CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute)),
			Labels: map[string]string{v1alpha1.LabelClass: "service"}, Annotations: map[string]string{v1alpha1.AnnotationMigration: "restart"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "s", UID: "s", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "a", Containers: containers}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func TestASuccessorRequestsWhatItsControllerAndAdmissionMakeOfIt(t *testing.T) {
	for _, tc := range []struct {
		name     string
		template []corev1.Container
		pods     []corev1.Pod // of which the first is asked about
		want     int64        // CPU of the successor
	}{
		{"like the pod", []corev1.Container{container("c", "1", "")}, []corev1.Pod{ofSet("p", 0, 1, container("c", "1", ""))}, 1000},
		{"the pod was made smaller in place", []corev1.Container{container("c", "3", "")}, []corev1.Pod{ofSet("p", 0, 2, container("c", "1500m", ""))}, 3000},
		{"the template has limits only", []corev1.Container{container("c", "", "3")}, []corev1.Pod{ofSet("p", 0, 2, container("c", "1500m", "3"))}, 3000},
		{"the pod was made larger in place", []corev1.Container{container("c", "1", "")}, []corev1.Pod{ofSet("p", 0, 2, container("c", "2", ""))}, 2000},
		{"admission made the pod smaller", []corev1.Container{container("c", "3", "")}, []corev1.Pod{ofSet("p", 0, 1, container("c", "1", ""))}, 1000},
		{"nobody knows whether the pod was changed", []corev1.Container{container("c", "3", "")}, []corev1.Pod{ofSet("p", 0, 0, container("c", "1", ""))}, 3000},
		{"admission added a container", []corev1.Container{container("c", "3", "")}, []corev1.Pod{ofSet("p", 0, 2, container("c", "1", ""), container("mesh", "200m", ""))}, 3200},
		{"admission adds one by now", []corev1.Container{container("c", "1", "")}, []corev1.Pod{
			ofSet("p", 0, 1, container("c", "1", "")), ofSet("q", 1, 1, container("c", "1", ""), container("mesh", "200m", "")),
		}, 1200},
		{"admission added one before", []corev1.Container{container("c", "1", "")}, []corev1.Pod{
			ofSet("p", 1, 1, container("c", "1", "")), ofSet("q", 0, 1, container("c", "1", ""), container("mesh", "200m", "")),
		}, 1000},
		{"another pod was made larger in place", []corev1.Container{container("c", "1", "")}, []corev1.Pod{
			ofSet("p", 0, 1, container("c", "1", "")), ofSet("q", 1, 2, container("c", "4", "")),
		}, 1000},
		{"the controller is gone", nil, []corev1.Pod{ofSet("p", 0, 2, container("c", "1", ""))}, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &World{Nodes: map[string]*corev1.Node{"a": ableNode("a")}, Namespaces: map[string]map[string]string{"default": {}}, Pods: pointersTo(tc.pods)}
			if tc.template != nil {
				set := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
				set.Spec.Template.Spec.Containers = tc.template
				w.ReplicaSets = byName([]appsv1.ReplicaSet{set})
			}
			v := NewView(w, noon, runtimes.NewLearner())
			for _, p := range v.Node(w.Nodes["a"], cluster.Node{}).Pods {
				own, _ := Requests(&tc.pods[0])
				if p.Name == "default/p" && (p.Elsewhere().Size.MilliCPU != tc.want || p.Size != own) {
					t.Errorf("its successor requests %dm, want %dm; the pod itself %dm", p.Elsewhere().Size.MilliCPU, tc.want, p.Size.MilliCPU)
				}
			}
		})
	}
}

func TestACopyOfAPodRequestsWhatThePodDoes(t *testing.T) {
	pod := ofSet("p", 0, 2, container("c", "1", ""))
	pod.Annotations[v1alpha1.AnnotationMigration] = "checkpoint"
	set := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{container("c", "3", "")}
	w := &World{
		Nodes: map[string]*corev1.Node{"a": ableNode("a"), "b": ableNode("b")}, Namespaces: map[string]map[string]string{"default": {}},
		Pods: []*corev1.Pod{&pod}, ReplicaSets: byName([]appsv1.ReplicaSet{set}), migrates: true,
	}
	if p := NewView(w, noon, runtimes.NewLearner()).Node(w.Nodes["a"], cluster.Node{}).Pods[0]; p.Successor != nil {
		t.Errorf("the copy requests %+v", p.Successor)
	}
}
