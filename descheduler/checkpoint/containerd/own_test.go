package containerd

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// node is a containerd with one running container. Unexpected calls panic.
type node struct {
	containersapi.ContainersClient
	criapi.RuntimeServiceClient
	labels  map[string]string
	missing bool
}

func (n *node) Get(context.Context, *containersapi.GetContainerRequest, ...grpc.CallOption) (*containersapi.GetContainerResponse, error) {
	if n.missing {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	return &containersapi.GetContainerResponse{Container: &containersapi.Container{ID: "id", Labels: n.labels}}, nil
}

// ContainerStatus returns that of the CRI plugin.
func (n *node) ContainerStatus(context.Context, *criapi.ContainerStatusRequest, ...grpc.CallOption) (*criapi.ContainerStatusResponse, error) {
	if n.missing {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	return &criapi.ContainerStatusResponse{
		Status: &criapi.ContainerStatus{State: criapi.ContainerState_CONTAINER_RUNNING}, Info: map[string]string{"info": `{"pid":42}`},
	}, nil
}

// container is the container of the node, and ownLabels are those that the kubelet gave it.
var (
	container = checkpoint.Container{Namespace: "ns", Pod: "work", PodUID: "uid", Name: "main", ID: "id"}
	ownLabels = map[string]string{
		"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.name": "work", "io.kubernetes.pod.uid": "uid", "io.kubernetes.container.name": "main",
	}
)

// owned returns a client of a node whose container is that of the pod. Its tasks must not be asked.
func owned() *Client {
	n := &node{labels: ownLabels}
	return &Client{containers: n, runtime: n}
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
	k := container
	client := func(labels map[string]string) (*Client, *tasks) {
		n := &node{labels: labels}
		seen := &tasks{node: n}
		return cgrouped(t, &Client{containers: n, tasks: seen, runtime: n}, version1, map[string]string{
			"freezer/kube/pod1/id/freezer.state": "THAWED",
		}), seen
	}
	for label := range ownLabels {
		labels := maps.Clone(ownLabels)
		labels[label] = "victim"
		c, seen := client(labels)
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
		if state, err := c.freezerState(); err != nil || seen.touched > 0 || state != "THAWED" {
			t.Errorf("with another %s the container is touched: its freezer says %q (%v)", label, state, err)
		}
	}
}

func TestTheContainerOfThePodIsFrozenAndThawed(t *testing.T) {
	k := container
	n := &node{labels: ownLabels}
	c := cgrouped(t, &Client{containers: n, tasks: &tasks{node: n}, runtime: n}, version1, map[string]string{"freezer/kube/pod1/id/freezer.state": "THAWED"})
	for _, step := range []struct {
		do         func(context.Context, checkpoint.Container) error
		says, then string
		is         checkpoint.State
	}{
		{c.Thaw, "thawed", "THAWED", checkpoint.Running}, {c.Freeze, "frozen", "FROZEN", checkpoint.Frozen},
		{c.Freeze, "frozen again", "FROZEN", checkpoint.Frozen}, {c.Thaw, "thawed again", "THAWED", checkpoint.Running},
	} {
		done := step.do(t.Context(), k)
		file, unread := c.freezerState()
		if state, err := c.State(t.Context(), k); done != nil || err != nil || unread != nil || state != step.is || file != step.then {
			t.Errorf("the right container, %s, is %q and its freezer %q: %v %v %v", step.says, state, file, done, err, unread)
		}
	}
	if err := os.RemoveAll(filepath.Join(c.Proc, "42")); err != nil {
		t.Fatal(err)
	}
	c.tasks = hostTasks{host: &host{state: task.Status_STOPPED}}
	if state, err := c.State(t.Context(), k); err != nil || state != checkpoint.Gone {
		t.Errorf("a container whose process has ended, which the CRI plugin does not know yet, is %q, %v", state, err)
	}
	n.missing = true
	if state, err := c.State(t.Context(), k); err != nil || state != checkpoint.Gone {
		t.Errorf("a container that has gone is %q, %v", state, err)
	}
}

// freezerState returns what the freezer of the container says.
func (c *Client) freezerState() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.HostRoot, "sys/fs/cgroup/freezer/kube/pod1/id/freezer.state"))
	return string(text), err
}
