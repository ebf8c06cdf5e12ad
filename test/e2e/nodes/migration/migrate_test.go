//go:build nodes

package migration

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// move creates a Migration of a pod.
func (w *town) move(pod string, change ...func(*v1alpha1.MigrationSpec)) *v1alpha1.Migration {
	w.Helper()
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "move-", Namespace: w.Namespace},
		Spec:       v1alpha1.MigrationSpec{PodName: pod},
	}
	for _, f := range change {
		f(&m.Spec)
	}
	if err := w.fleet.Objects.Create(w.Context(), m); err != nil {
		w.Fatal(err)
	}
	return m
}

// until waits until check of the migration returns nil.
func (w *town) until(m *v1alpha1.Migration, what string, check func(*v1alpha1.Migration) error) *v1alpha1.Migration {
	w.Helper()
	now := &v1alpha1.Migration{}
	w.Eventually(fmt.Sprintf("migration %s of pod %s %s", m.Name, m.Spec.PodName, what), func(ctx context.Context) error {
		if err := w.fleet.Objects.Get(ctx, client.ObjectKeyFromObject(m), now); err != nil {
			return err
		}
		if err := check(now); err != nil {
			return fmt.Errorf("%w; its status is %+v", err, now.Status)
		}
		return nil
	})
	return now
}

func ended(m *v1alpha1.Migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.MigrationFinished)
}

// end waits until a migration has ended.
func (w *town) end(m *v1alpha1.Migration) *v1alpha1.Migration {
	w.Helper()
	return w.until(m, "ends", func(m *v1alpha1.Migration) error {
		if !ended(m) {
			return fmt.Errorf("it is %s", m.Status.Phase)
		}
		return nil
	})
}

// succeeded waits until a migration has ended, and fails the test if it did not succeed.
func (w *town) succeeded(m *v1alpha1.Migration) *v1alpha1.Migration {
	w.Helper()
	m = w.end(m)
	if m.Status.Phase != v1alpha1.MigrationSucceeded {
		w.Fatalf("migration %s of pod %s ended as %s: %s", m.Name, m.Spec.PodName, m.Status.Phase, endMessage(m))
	}
	return m
}

// other returns the node that does not have this name.
func (w *town) other(node string) *cluster.Node {
	if w.Nodes[0].Name == node {
		return w.Nodes[1]
	}
	return w.Nodes[0]
}

// gone waits until the Migration no longer exists.
func (w *town) gone(m *v1alpha1.Migration) {
	w.Helper()
	w.Eventually("migration "+m.Name+" is gone", func(ctx context.Context) error {
		err := w.fleet.Objects.Get(ctx, client.ObjectKeyFromObject(m), &v1alpha1.Migration{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// kill kills the first process of a pod's container.
func (w *town) kill(pod *corev1.Pod) {
	w.Helper()
	node := w.Node(pod.Spec.NodeName)
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	if out, err := node.Run(w.Context(), "ctr", "-a", node.ContainerdSocket, "-n", "k8s.io", "tasks", "kill", "-s", "KILL", id); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
}
