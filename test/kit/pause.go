package kit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// Pause pauses the programs that watch the ConfigMap in a namespace, and returns a function that resumes
// them.
func (s *Site) Pause(t testing.TB, namespace, why string) (resume func()) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pause.Name}, Data: map[string]string{pause.ReasonKey: why}}
	testapi.Create(t, s.Client, object)
	return func() {
		t.Helper()
		testapi.Delete(t, s.Client, object)
	}
}
