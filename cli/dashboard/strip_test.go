package dashboard

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestSecretsOfObjectsAreNotKept(t *testing.T) {
	const secret = "hunter2"
	annotated := metav1.ObjectMeta{Name: "o", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": secret}}
	container := corev1.Container{Name: "main", Image: secret, Command: []string{secret}, Args: []string{secret}, Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}}}
	objects := map[string]any{
		"pod": &corev1.Pod{ObjectMeta: *annotated.DeepCopy(), Spec: corev1.PodSpec{
			Containers: []corev1.Container{container}, InitContainers: []corev1.Container{container},
			Volumes: []corev1.Volume{{Name: secret}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: secret}},
		}, Status: corev1.PodStatus{Message: secret, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: secret}}}},
		"node": &corev1.Node{ObjectMeta: *annotated.DeepCopy()},
		"pool": &v1alpha1.WorkerPool{ObjectMeta: *annotated.DeepCopy(), Spec: v1alpha1.WorkerPoolSpec{Template: runtime.RawExtension{Raw: []byte(`"` + secret + `"`)}}},
		"policy": &v1alpha1.ReplicaPolicy{ObjectMeta: *annotated.DeepCopy(), Spec: v1alpha1.ReplicaPolicySpec{Metrics: v1alpha1.ReplicaMetrics{Queries: &v1alpha1.MetricQueries{ArrivalRate: secret}}},
			Status: v1alpha1.ReplicaPolicyStatus{Memory: &v1alpha1.LawMemory{Of: secret}}},
		"migration": &v1alpha1.Migration{ObjectMeta: *annotated.DeepCopy(), Status: v1alpha1.MigrationStatus{Source: &v1alpha1.SourceReport{Certificate: secret}, Target: &v1alpha1.TargetReport{Certificate: secret}}},
	}
	for name, o := range objects {
		kept, err := strip(o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), secret) {
			t.Errorf("%s: %s is kept", name, text)
		}
	}
}

func TestWhatIsShownOfAPodIsKept(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{v1alpha1.LabelClass: "batch", "app": "x"}, Annotations: map[string]string{v1alpha1.AnnotationExpectedFinish: "2026-01-01T00:00:00Z", "x": "y"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodScheduled, Message: "no"}}},
	}
	if _, err := strip(p); err != nil {
		t.Fatal(err)
	}
	if p.Labels[v1alpha1.LabelClass] != "batch" || len(p.Labels) != 1 || len(p.Annotations) != 1 || p.Spec.NodeName != "n" ||
		p.Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 || len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Message != "no" {
		t.Errorf("kept %+v", p)
	}
}
