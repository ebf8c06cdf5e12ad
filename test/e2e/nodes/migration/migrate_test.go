//go:build nodes

package migration

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// other returns the node that does not have this name.
func (w *town) other(node string) *cluster.Node {
	if w.fleet.Nodes[0].Name == node {
		return w.fleet.Nodes[1]
	}
	return w.fleet.Nodes[0]
}

// kill kills the first process of a pod's container.
func (w *town) kill(pod *corev1.Pod) {
	w.Helper()
	node := w.fleet.Node(pod.Spec.NodeName)
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	if out, err := node.Run(w.Context(), "ctr", "-a", node.ContainerdSocket, "-n", "k8s.io", "tasks", "kill", "-s", "KILL", id); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
}
