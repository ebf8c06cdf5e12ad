package pause_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/test/kit/testapi"
)

func TestTheBeginningAndTheEndOfEachPauseAreRecordedOnce(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	s := &pause.Switch{Client: c, Namespace: "supercargo"}
	recorder := events.NewFakeRecorder(20)
	to := &conditions.Reporter{Object: &corev1.Pod{}, Conditions: &[]metav1.Condition{}, Events: recorder, Last: map[string]string{}}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "supercargo", Name: pause.Name}}
	for range 2 {
		testapi.Create(t, c, object.DeepCopy())
		for _, want := range []bool{true, true, false, false} {
			if !want {
				_ = c.Delete(t.Context(), object.DeepCopy()) // the second time it is gone
			}
			paused, err := s.Apply(t.Context(), to, true)
			if err != nil || paused != want || meta.IsStatusConditionTrue(*to.Conditions, v1alpha1.ConditionPaused) != want {
				t.Errorf("paused %t (%v), conditions %v, want %t", paused, err, *to.Conditions, want)
			}
		}
	}
	var kinds []string
	for len(recorder.Events) > 0 {
		kinds = append(kinds, strings.Fields(<-recorder.Events)[1])
	}
	if got := strings.Join(kinds, " "); got != "Paused Resumed Paused Resumed" {
		t.Errorf("the Events are %s", got)
	}
}
