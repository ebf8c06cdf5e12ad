//go:build nodes

package nodes

import (
	"context"
	"strings"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// containerID returns the ID of a container in containerd.
func containerID(pod *corev1.Pod) string {
	return strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// inPods selects containerd's namespace of pods.
func inPods(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
}

// freeze pauses a pod's container.
func (s *bench) freeze(node *cluster.Node, pod *corev1.Pod) {
	s.Helper()
	if err := pause(s.Context(), node, containerID(pod)); err != nil {
		s.Fatal(err)
	}
}

func pause(ctx context.Context, node *cluster.Node, id string) error {
	conn, err := node.CRI()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // no data is lost after the last answer
	_, err = tasks.NewTasksClient(conn).Pause(inPods(ctx), &tasks.PauseTaskRequest{ContainerID: id})
	return err
}
