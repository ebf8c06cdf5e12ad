package playground_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/playground"
)

func TestAPodRunsOnANodeThatKwokPlays(t *testing.T) {
	t0 := time.Now()
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(5)})
	t.Logf("ready after %v", time.Since(t0))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := p.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		pod, err := p.Client().CoreV1().Pods("default").Get(context.Background(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pod.Status.Phase == "Running" {
			t.Logf("running after %v", time.Since(t0))
			break
		}
		time.Sleep(20 * time.Millisecond)
		if time.Since(t0) > 40*time.Second {
			t.Fatal(pod)
		}
	}
	t1 := time.Now()
	p.Stop()
	t.Logf("stopped in %v", time.Since(t1))
}
