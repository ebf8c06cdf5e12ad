package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/podvolumes"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/test/kit/sentences"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// host is a containerd of which a test sets each answer. Unexpected calls panic.
type host struct {
	state    task.Status
	cgroup   string // of process 42; empty for one with a freezer
	dumps    error
	hangs    chan struct{} // CRIU ends when it is closed, unless it is nil
	spec     string
	images   []string
	restores bool
}

// hostTasks, hostImages and hostRuntime are the services of a host.
type (
	hostTasks struct {
		tasksapi.TasksClient
		*host
	}
	hostImages struct {
		criapi.ImageServiceClient
		*host
	}
	hostRuntime struct {
		criapi.RuntimeServiceClient
		*host
	}
)

func (h hostTasks) Get(context.Context, *tasksapi.GetRequest, ...grpc.CallOption) (*tasksapi.GetResponse, error) {
	return &tasksapi.GetResponse{Process: &task.Process{Status: h.state, Pid: 42}}, nil
}

func (h hostTasks) ListPids(context.Context, *tasksapi.ListPidsRequest, ...grpc.CallOption) (*tasksapi.ListPidsResponse, error) {
	return &tasksapi.ListPidsResponse{Processes: []*task.ProcessInfo{{Pid: 42}}}, nil
}

func (h hostTasks) Checkpoint(context.Context, *tasksapi.CheckpointTaskRequest, ...grpc.CallOption) (*tasksapi.CheckpointTaskResponse, error) {
	if h.hangs != nil {
		<-h.hangs
	}
	return nil, h.dumps
}

func (h hostImages) ImageStatus(_ context.Context, of *criapi.ImageStatusRequest, _ ...grpc.CallOption) (*criapi.ImageStatusResponse, error) {
	for _, id := range h.images {
		if id == of.GetImage().GetImage() {
			return &criapi.ImageStatusResponse{Image: &criapi.Image{Id: id}}, nil
		}
	}
	return &criapi.ImageStatusResponse{}, nil
}

func (h hostRuntime) Status(context.Context, *criapi.StatusRequest, ...grpc.CallOption) (*criapi.StatusResponse, error) {
	program := "/usr/bin/runc"
	if h.restores {
		program = "/" + RuntimeName
	}
	config := fmt.Sprintf(`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"BinaryName":%q}}}}}`, program)
	return &criapi.StatusResponse{Info: map[string]string{"config": config}}, nil
}

func (h hostRuntime) ContainerStatus(context.Context, *criapi.ContainerStatusRequest, ...grpc.CallOption) (*criapi.ContainerStatusResponse, error) {
	return &criapi.ContainerStatusResponse{Status: &criapi.ContainerStatus{
		ImageId: h.images[0], LogPath: "/log/0.log", Labels: map[string]string{checkpoint.LabelPodUID: "new-uid", checkpoint.LabelContainer: "main"},
	}}, nil
}

// specified is a container with a specification.
type specified struct {
	containersapi.ContainersClient
	labels map[string]string
	spec   string
}

func (s specified) Get(context.Context, *containersapi.GetContainerRequest, ...grpc.CallOption) (*containersapi.GetContainerResponse, error) {
	return &containersapi.GetContainerResponse{Container: &containersapi.Container{ID: "id", Labels: s.labels, Spec: &anypb.Any{Value: []byte(s.spec)}}}, nil
}

// TestEachSentenceOfContainerdIsSaidWhereItIsTrueAndNotWhereItIsNot has the messages of failures, which become Events of
// the Migration.
func TestEachSentenceOfContainerdIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	k := container
	client := func(h *host) *Client {
		if h.images == nil {
			h.images = []string{"i"}
		}
		return cgrouped(t, &Client{containers: specified{labels: ownLabels, spec: h.spec}, tasks: hostTasks{host: h}, criImages: hostImages{host: h}, images: recordsAPI{records: records{}}, runtime: hostRuntime{host: h}}, cmp.Or(h.cgroup, version1), nil)
	}
	inspected := func(state task.Status) string {
		_, err := client(&host{state: state, spec: `{"process":{"terminal":true}}`}).Inspect(t.Context(), k)
		return fmt.Sprint(err)
	}
	if text := inspected(task.Status_UNKNOWN); !strings.Contains(text, "its state is unknown") {
		t.Errorf("of a container whose state is unknown it says %q", text)
	}
	moved := func(spec string, files map[string]string) string {
		c := client(&host{state: task.Status_RUNNING, spec: spec})
		process(t, c.Proc, 42)
		if err := os.Mkdir(filepath.Join(c.Proc, "42", "root"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.MkdirAll(filepath.Join(c.Proc, "42", filepath.Dir(name)), 0o700); err != nil {
				t.Fatal(err)
			}
			testfile.Write(t, filepath.Join(c.Proc, "42", name), text)
		}
		_, err := c.movable(t.Context(), k, 42)
		return fmt.Sprint(err)
	}
	connected := func(n int) string {
		return moved("{}", map[string]string{"net/tcp": socketHeader + strings.Repeat(socket(loopback, loopback, "01", 1), n)})
	}
	none := connected(0)
	datagrams := func(lines string) string { return moved("{}", map[string]string{"net/udp": socketHeader + lines}) }
	one := socket(ofPod, ofPod, "01", 1)
	used := func(name, text string) string { return moved("{}", map[string]string{name: text}) }
	mapped := used("maps", "1-2 r--p 0 0:0 7 /etc/config/..2026_11_30_09_48_23.1234567890/key\n")
	locked := func() string {
		c := client(&host{state: task.Status_RUNNING, spec: "{}"})
		dir := process(t, c.Proc, 42)
		link(t, "/shared/file", filepath.Join(dir, "fd", "3"))
		testfile.Write(t, filepath.Join(dir, "fdinfo", "3"), "mnt_id:\t101\nlock:\t1: POSIX\n")
		if err := os.Mkdir(filepath.Join(dir, "root"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := c.movable(t.Context(), k, 42)
		return fmt.Sprint(err)
	}()
	// The volume of a pod of the process 42, which is mounted or not.
	measured := func(destination string) string {
		c := client(&host{})
		dir := process(t, c.Proc, 42)
		if err := os.MkdirAll(filepath.Join(dir, "root", "dev", "shm"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := c.volumeBytes(k, 42, []podvolumes.Volume{{Destination: destination}}, 1<<30)
		return fmt.Sprint(err)
	}
	sent := func(state task.Status, cgroup string) string {
		c := client(&host{state: state, cgroup: cgroup})
		if err := os.MkdirAll(filepath.Join(process(t, c.Proc, 42), "root", "dev", "shm"), 0o700); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(c.archiveVolumes(t.Context(), k, archive.NewWriter(io.Discard), notes{Volumes: []podvolumes.Volume{{Destination: "/dev/shm"}}}))
	}
	frozen := func(state task.Status, cgroup string) string {
		return fmt.Sprint(client(&host{state: state, cgroup: cgroup}).Freeze(t.Context(), k))
	}
	unfreezable := fmt.Sprint(client(&host{spec: "{}", cgroup: "0::/elsewhere\n"}).movable(t.Context(), k, 42))
	dumpedBy := func(h *host, log string, clk clock.Clock) string {
		dir := t.TempDir()
		if log != "" {
			testfile.Write(t, filepath.Join(dir, "dump.log"), log)
		}
		c := client(h)
		c.Clock = clk
		return fmt.Sprint(c.criu(t.Context(), k, dir, dir, dir))
	}
	dumped := func(log string) string {
		return dumpedBy(&host{dumps: errors.New("criu failed")}, log, clock.RealClock{})
	}
	hangs := make(chan struct{})
	defer close(hangs)
	hostRoot := t.TempDir()
	testfile.Write(t, filepath.Join(hostRoot, RuntimeName), "")
	if err := os.Chmod(filepath.Join(hostRoot, RuntimeName), 0o700); err != nil {
		t.Fatal(err)
	}
	able := func(base string, restores bool, images ...string) string {
		image := checkpoint.Image{Node: "n", Pod: "new-uid", Requirements: capability.Requirements{BaseImage: base, BaseImageID: base}}
		c := client(&host{images: images, restores: restores})
		c.HostRoot, c.Restore = hostRoot, restoreapi.Folder(filepath.Join(t.TempDir(), "restore"))
		return fmt.Sprint(c.Able(t.Context(), image))
	}
	given := func(pod, base string) string {
		image := checkpoint.Image{Node: "n", Pod: pod, Container: "main", Requirements: capability.Requirements{BaseImageID: base}}
		_, err := client(&host{images: []string{"i"}}).Give(t.Context(), image, "id")
		return fmt.Sprint(err)
	}
	archived := func(notes string) string {
		dir := t.TempDir()
		if notes != "" {
			testfile.Write(t, filepath.Join(dir, dumpNotes), notes)
		}
		return fmt.Sprint(client(&host{}).Archive(t.Context(), k, dir, &strings.Builder{}))
	}
	sentences.Check(t, []string{"source.go", "target.go", "state.go", "criu.go", "freezer.go", "volumes.go"}, []sentences.Case{
		{"%s is %s: only running containers can be moved", inspected(task.Status_STOPPED), inspected(task.Status_RUNNING)},
		{"%s has a terminal, which cannot be moved: remove tty from the pod", moved(`{"process":{"terminal":true}}`, nil), none},
		{"%s has a read-only root file system without a folder /tmp, which CRIU needs to restore it: add an empty /tmp to its image, or remove readOnlyRootFilesystem",
			moved(`{"root":{"readonly":true}}`, map[string]string{"root/etc": ""}), moved(`{"root":{"readonly":true}}`, map[string]string{"root/tmp/x": "", "net/tcp": socketHeader})},
		{"the network namespace of %s has %s, which cannot be moved: close %s, or let CRIU do so (tcp-close in /etc/criu/runc.conf on every node, and --allow-open-connections for the node agents)", connected(1), none},
		{"open TCP connection", connected(1), none},
		{"the network namespace of %s has %s, which cannot be moved, because the new pod has another address: close %s", datagrams(one), none},
		{"connected UDP socket", datagrams(one), datagrams(socket(anyone, nobody, "07", 1))},
		{"a socket of %s is bound to %s, and the new pod has another address: bind it to all addresses instead", datagrams(socket(ofPod, nobody, "07", 1)), datagrams(one)},
		{"%s has opened %s, a file of a volume that the kubelet writes, which has another path on another node: close it once it is read", mapped, none},
		{"%s has locked %s, a file of a volume, and its copy on another node would wait for the lock: release the lock", locked, mapped},
		{"%s cannot be frozen: %v", unfreezable, none},
		{"%s has ended", frozen(task.Status_STOPPED, ""), frozen(task.Status_RUNNING, "0::/elsewhere\n")},
		{"%s cannot be frozen: %v: check the freezer of its control group", frozen(task.Status_RUNNING, "0::/elsewhere\n"), frozen(task.Status_PAUSED, "0::/elsewhere\n")},
		{"dump %s: CRIU was ended because it had written nothing for %s: %s", dumpedBy(&host{hangs: hangs}, "", &ticking{FakeClock: clocktesting.NewFakeClock(time.Time{})}), dumped("")},
		{"dump %s: CRIU reports that no space is left: raise --work-size of the node agents if the work folder is full", dumped("Error: No space left on device\n"), dumped("Error: it has a GPU\n")},
		{"dump %s: CRIU failed: %s (%v)", dumped("Error: it has a GPU\n"), dumped("Error: No space left on device\n")},
		{"the volume at %s of %s cannot be read: %v", measured("/data"), measured("/dev/shm")},
		{"%s is no longer frozen, so the files in its volumes may not belong to its dump", sent(task.Status_RUNNING, ""), sent(task.Status_PAUSED, "")},
		{"the dump of %s is missing", archived(""), archived("x")},
		{"the report of the source's agent does not name the image of the container", able("", true), able("i", true, "i")},
		{"node %s does not have image %s (%s) of the container: pull it there first, for example with a DaemonSet", able("i", true, "j"), able("i", true, "i")},
		{"containerd of node %s does not start %s in place of runc: install it there and name it as BinaryName of the default runtime", able("i", false, "i"), able("i", true, "i")},
		{"container %s is not container %s of pod %s", given("another-uid", "i"), given("new-uid", "i")},
		{"image %s is %s on node %s, and was %s when the container was checkpointed: the tag was moved", given("new-uid", "j"), given("new-uid", "i")},
	}, map[string]string{
		"No space left":     "a part of CRIU's log, which is read",
		"find a checkpoint": "part of an error",
	})
	if one, two := connected(1), connected(2); !strings.Contains(one, "1 open TCP connection, which cannot be moved: close it,") || !strings.Contains(two, "2 open TCP connections, which cannot be moved: close them,") {
		t.Errorf("it says %q and %q", one, two)
	}
}
