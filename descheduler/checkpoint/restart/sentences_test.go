package restart

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/test/kit/sentences"
)

func TestEachSentenceIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	inspected := func(phase corev1.PodPhase) string {
		source := New(func(context.Context, types.NamespacedName) (*corev1.Pod, error) {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p1"}, Status: corev1.PodStatus{Phase: phase}}, nil
		}).Source
		_, err := source.Inspect(t.Context(), checkpoint.Container{Pod: "work", PodUID: "p1", Name: "main"})
		return fmt.Sprint(err)
	}
	sentences.Check(t, []string{"*.go"}, []sentences.Case{{"%s is not running", inspected(corev1.PodSucceeded), inspected(corev1.PodRunning)}}, nil)
}
