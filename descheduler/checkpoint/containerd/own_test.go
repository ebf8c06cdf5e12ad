package containerd

import (
	"context"
	"maps"
	"testing"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// node is a containerd with one running container. Unexpected calls panic.
type node struct {
	containersapi.ContainersClient
	labels  map[string]string
	missing bool
}

func (n *node) Get(context.Context, *containersapi.GetContainerRequest, ...grpc.CallOption) (*containersapi.GetContainerResponse, error) {
	if n.missing {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	return &containersapi.GetContainerResponse{Container: &containersapi.Container{ID: "id", Labels: n.labels}}, nil
}

// tasks are the tasks of the node. They count operations.
type tasks struct {
	tasksapi.TasksClient
	node    *node
	touched int
}

func (t *tasks) Get(context.Context, *tasksapi.GetRequest, ...grpc.CallOption) (*tasksapi.GetResponse, error) {
	if t.node.missing {
		return nil, status.Error(codes.NotFound, "no such task")
	}
	return &tasksapi.GetResponse{Process: &task.Process{Status: task.Status_RUNNING, Pid: 42}}, nil
}

func (t *tasks) Pause(context.Context, *tasksapi.PauseTaskRequest, ...grpc.CallOption) (*emptypb.Empty, error) {
	t.touched++
	return nil, nil
}

func (t *tasks) Resume(context.Context, *tasksapi.ResumeTaskRequest, ...grpc.CallOption) (*emptypb.Empty, error) {
	t.touched++
	return nil, nil
}

func (t *tasks) Kill(context.Context, *tasksapi.KillRequest, ...grpc.CallOption) (*emptypb.Empty, error) {
	t.touched++
	return nil, nil
}

func (t *tasks) Checkpoint(context.Context, *tasksapi.CheckpointTaskRequest, ...grpc.CallOption) (*tasksapi.CheckpointTaskResponse, error) {
	t.touched++
	return nil, nil
}

// TestContainersOfOtherPodsAreNotTouched: the ID is from the status of a Migration, which may
// name any container of the node.
func TestContainersOfOtherPodsAreNotTouched(t *testing.T) {
	k := checkpoint.Container{Namespace: "ns", Pod: "work", PodUID: "uid", Name: "main", ID: "id"}
	own := map[string]string{
		"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.name": "work", "io.kubernetes.pod.uid": "uid", "io.kubernetes.container.name": "main",
	}
	client := func(labels map[string]string, missing bool) (*Client, *tasks) {
		n := &node{labels: labels, missing: missing}
		seen := &tasks{node: n}
		return &Client{Options: Options{Clock: clock.RealClock{}}, containers: n, tasks: seen}, seen
	}
	for label := range own {
		labels := maps.Clone(own)
		labels[label] = "victim"
		c, seen := client(labels, false)
		if state, err := c.State(t.Context(), k); err != nil || state != checkpoint.Gone {
			t.Errorf("with another %s the container is %q, %v; the pod has none under that ID", label, state, err)
		}
		_, inspected := c.Inspect(t.Context(), k)
		_, dumped := c.Dump(t.Context(), k, t.TempDir()+"/dump")
		for what, err := range map[string]error{
			"inspected": inspected, "frozen": c.Freeze(t.Context(), k), "dumped": dumped, "thawed": c.Thaw(t.Context(), k), "killed": c.Kill(t.Context(), k),
		} {
			if f := checkpoint.AsFailure(err); f == nil || f.Reason != v1alpha1.MigrationReasonForeignContainer {
				t.Errorf("with another %s the container is %s: %v", label, what, err)
			}
		}
		if seen.touched > 0 {
			t.Errorf("with another %s the container is touched", label)
		}
	}
	c, seen := client(own, false)
	if state, err := c.State(t.Context(), k); err != nil || state != checkpoint.Running {
		t.Errorf("the right container is %q, %v", state, err)
	}
	if err := c.Thaw(t.Context(), k); err != nil || seen.touched != 1 {
		t.Errorf("the right container is touched %d times: %v", seen.touched, err)
	}
	c, _ = client(nil, true)
	if state, err := c.State(t.Context(), k); err != nil || state != checkpoint.Gone {
		t.Errorf("a container that has gone is %q, %v", state, err)
	}
}
