package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// node is a node with one container, process 42, whose groups are plain files.
type node struct {
	*testing.T
	criapi.RuntimeServiceClient
	dir     string
	err     error
	state   criapi.ContainerState
	labels  map[string]string
	killed  []int
	freezer *Freezer
}

// the is the node's container.
var the = checkpoint.Container{Namespace: "ns", Pod: "work", PodUID: "uid", Name: "main", ID: "id"}

func newNode(t *testing.T, groups string, files map[string]string) *node {
	t.Helper()
	n := &node{T: t, dir: t.TempDir(), state: criapi.ContainerState_CONTAINER_RUNNING, labels: map[string]string{
		"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.name": "work", "io.kubernetes.pod.uid": "uid", "io.kubernetes.container.name": "main",
	}}
	n.write("proc/42/cgroup", groups)
	for name, content := range files {
		n.write("sys/"+name, content)
	}
	n.freezer = &Freezer{
		Runtime: n, Proc: filepath.Join(n.dir, "proc"), Groups: filepath.Join(n.dir, "sys"), Clock: clock.RealClock{},
		Requires: func(context.Context) (capability.Requirements, error) {
			return capability.Requirements{Arch: "amd64"}, nil
		},
		Signal: func(pid int, signal syscall.Signal) error {
			if signal != syscall.SIGKILL {
				t.Errorf("signal %v is sent", signal)
			}
			n.killed = append(n.killed, pid)
			return nil
		},
	}
	return n
}

func (n *node) write(name, content string) {
	n.Helper()
	file := filepath.Join(n.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		n.Fatal(err)
	}
}

func (n *node) read(name string) string {
	n.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil {
		n.Fatal(err)
	}
	return string(text)
}

// ContainerStatus answers like a runtime.
func (n *node) ContainerStatus(context.Context, *criapi.ContainerStatusRequest, ...grpc.CallOption) (*criapi.ContainerStatusResponse, error) {
	return &criapi.ContainerStatusResponse{
		Status: &criapi.ContainerStatus{State: n.state, Labels: n.labels, ImageId: "sha256:base", Image: &criapi.ImageSpec{Image: "base:1"}}, Info: map[string]string{"info": `{"pid":42}`},
	}, n.err
}

// ContainerStats answers as containerd does for a restored container.
func (*node) ContainerStats(context.Context, *criapi.ContainerStatsRequest, ...grpc.CallOption) (*criapi.ContainerStatsResponse, error) {
	return nil, status.Error(codes.Unknown, "unexpected metrics response: []")
}

const v1 = "9:name=systemd:/x\n5:freezer:/pods/c\n0::/unified\n"

func TestVersion1IsFrozenAndThawed(t *testing.T) {
	n := newNode(t, v1, map[string]string{"freezer/pods/c/freezer.state": "THAWED", "freezer/pods/c/cgroup.procs": ""})
	n.is(checkpoint.Running)
	if err := n.freezer.Freeze(t.Context(), the); err != nil {
		t.Fatal(err)
	}
	n.is(checkpoint.Frozen)
	if err := n.freezer.Thaw(t.Context(), the); err != nil {
		t.Fatal(err)
	}
	n.is(checkpoint.Running)
}

func (n *node) is(want checkpoint.State) {
	n.Helper()
	if got, err := n.freezer.State(n.Context(), the); err != nil || got != want {
		n.Errorf("the container is %q (%v), want %q", got, err, want)
	}
}

func TestVersion2IsAskedToFreeze(t *testing.T) {
	n := newNode(t, "0::/pods/c\n", map[string]string{"pods/c/cgroup.freeze": "0", "pods/c/cgroup.events": "populated 1\nfrozen 1\n", "pods/c/cgroup.procs": ""})
	if err := n.freezer.Freeze(t.Context(), the); err != nil {
		t.Fatal(err)
	}
	if got := n.read("sys/pods/c/cgroup.freeze"); got != "1" {
		t.Errorf("cgroup.freeze is %q, want 1", got)
	}
	n.is(checkpoint.Frozen)
	n.write("sys/pods/c/cgroup.events", "populated 1\nfrozen 0\n")
	n.is(checkpoint.Running)
}

// TestKillingComesBeforeThawing: a container that is thawed first would continue.
func TestKillingComesBeforeThawing(t *testing.T) {
	n := newNode(t, v1, map[string]string{"freezer/pods/c/freezer.state": "FROZEN", "freezer/pods/c/cgroup.procs": "42\n43\n"})
	n.freezer.Signal = func(pid int, _ syscall.Signal) error {
		if got := n.read("sys/freezer/pods/c/freezer.state"); got != "FROZEN" {
			t.Errorf("process %d is killed when the group is %s", pid, got)
		}
		if n.killed = append(n.killed, pid); len(n.killed) == 2 {
			n.write("sys/freezer/pods/c/cgroup.procs", "")
		}
		return nil
	}
	if err := n.freezer.Kill(t.Context(), the); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(n.killed, []int{42, 43}) || !strings.HasPrefix(n.read("sys/freezer/pods/c/freezer.state"), "THAWED") {
		t.Errorf("killed %v, and the group is %s", n.killed, n.read("sys/freezer/pods/c/freezer.state"))
	}
}

func TestWhatHasEndedIsGone(t *testing.T) {
	ended := newNode(t, v1, nil)
	ended.state = criapi.ContainerState_CONTAINER_EXITED
	unknown := newNode(t, v1, nil)
	unknown.err = status.Error(codes.NotFound, "no such container")
	for _, n := range []*node{ended, unknown, newNode(t, v1, nil)} {
		n.is(checkpoint.Gone)
	}
	down := newNode(t, v1, nil)
	down.err = status.Error(codes.Unavailable, "no runtime")
	if got, err := down.freezer.State(t.Context(), the); err == nil || got != checkpoint.Unknown {
		t.Errorf("without a runtime the container is %q, %v", got, err)
	}
}

// TestContainersOfOtherPodsAreNotTouched: the ID is from the status of a Migration, which may
// name any container of the node.
func TestContainersOfOtherPodsAreNotTouched(t *testing.T) {
	for _, label := range []string{"io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.pod.uid", "io.kubernetes.container.name"} {
		n := newNode(t, v1, map[string]string{"freezer/pods/c/freezer.state": "THAWED", "freezer/pods/c/cgroup.procs": "42\n"})
		n.labels[label] = "victim"
		n.is(checkpoint.Gone)
		_, inspected := n.freezer.Inspect(t.Context(), the)
		for what, err := range map[string]error{
			"inspected": inspected, "frozen": n.freezer.Freeze(t.Context(), the), "thawed": n.freezer.Thaw(t.Context(), the), "killed": n.freezer.Kill(t.Context(), the),
		} {
			if f := checkpoint.AsFailure(err); f == nil || f.Reason != checkpoint.ReasonForeignContainer {
				t.Errorf("with another %s the container is %s: %v", label, what, err)
			}
		}
		if got := n.read("sys/freezer/pods/c/freezer.state"); got != "THAWED" || len(n.killed) > 0 {
			t.Errorf("with another %s the group is %s, and %v are killed", label, got, n.killed)
		}
	}
	n := newNode(t, v1, map[string]string{"freezer/pods/c/freezer.state": "THAWED"})
	n.labels = nil // not a container of a pod
	n.is(checkpoint.Gone)
}

func TestContainersAreDescribed(t *testing.T) {
	n := newNode(t, v1, map[string]string{"freezer/pods/c/freezer.state": "THAWED", "freezer/pods/c/cgroup.procs": "42\n43\n"})
	n.write("proc/42/status", "RssAnon:\t4 kB\nRssFile:\t100 kB\n") // 43 has ended
	facts, err := n.freezer.Inspect(t.Context(), the)
	if err != nil || facts.MemoryBytes != 4<<10 || facts.Requirements.BaseImageID != "sha256:base" || facts.Requirements.Arch != "amd64" {
		t.Errorf("Inspect gives %+v, %v", facts, err)
	}
	n.write("sys/freezer/pods/c/freezer.state", "FROZEN")
	if _, err := n.freezer.Inspect(t.Context(), the); checkpoint.AsFailure(err) == nil {
		t.Errorf("a frozen container can be moved: %v", err)
	}
}

func FuzzGroupsStayBelowTheirRoot(f *testing.F) {
	f.Add(v1)
	f.Add("5:freezer:/../../etc\n")
	f.Add("0::/a/../../b\n")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := parseGroup(text, "/sys/fs/cgroup")
		if err == nil && g.dir != "/sys/fs/cgroup" && !strings.HasPrefix(g.dir, "/sys/fs/cgroup/") {
			t.Errorf("%q leads to %s", text, g.dir)
		}
	})
}
