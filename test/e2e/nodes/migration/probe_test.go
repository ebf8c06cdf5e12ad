//go:build nodes

package migration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
)

// probed starts a movable counter with a liveness probe each second, and waits until it counts.
func (w *town) probed(name string, failures int32) *corev1.Pod {
	w.Helper()
	pod := moves.Movable(w.Pod(name, cluster.Images["counter"], corev1.EnvVar{Name: "LISTEN", Value: ":8080"}))
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
		InitialDelaySeconds: 2, PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: failures,
	}
	w.Create(pod)
	w.Running(name)
	w.Counts(name, 40) // some probes have succeeded
	return w.Get(name)
}

// A kubelet kills a frozen container once its liveness probe has failed too often, so such a pod is not
// frozen at all.
func TestAPodWhoseLivenessProbeWouldKillItIsRefused(t *testing.T) {
	w := newTown(t)
	pod := w.probed("counter", 3)
	m := w.End(w.Move(pod.Name))
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MigrationEligible)
	if m.Status.Phase != v1alpha1.MigrationRefused || c == nil || c.Reason != "LivenessProbeTooStrict" {
		t.Fatalf("it ended as %s: %+v", m.Status.Phase, c)
	}
	w.Continued(pod.Name)

	node := w.fleet.Node(pod.Spec.NodeName)
	id := strings.TrimPrefix(w.Get(pod.Name).Status.ContainerStatuses[0].ContainerID, "containerd://")
	if out, err := node.Run(w.Context(), "ctr", "-a", node.ContainerdSocket, "-n", "k8s.io", "tasks", "pause", id); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	frozen := time.Now()
	w.Eventually("the kubelet kills the frozen container", func(ctx context.Context) error {
		events, err := w.Client().CoreV1().Events(w.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
		if err != nil {
			return err
		}
		said := ""
		for _, e := range events.Items {
			if e.Reason == "Killing" {
				return nil
			}
			said += e.Reason + " "
		}
		return fmt.Errorf("its Events are %s", said)
	})
	t.Logf("the kubelet kills a frozen container after %s", time.Since(frozen).Round(100*time.Millisecond))
}
