// Package cgroup freezes the containers of any runtime with the freezer of their control group,
// of cgroup v1 or v2. It finds containers through CRI.
//
// It is for runtimes whose own pause is not accessible. A runtime that does not know that a
// container is frozen may thaw it while it takes a checkpoint; the agent detects that and fails
// the migration.
package cgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/procfs"
	"supercargo.dev/supercargo/internal/movable/capability"
)

const (
	// settle is how often the state of a changing group is polled, and patience for how long.
	settle   = 10 * time.Millisecond
	patience = 10 * time.Second
)

// Freezer freezes the containers of a node.
type Freezer struct {
	// Runtime is the CRI of the node; see [Dial].
	Runtime criapi.RuntimeServiceClient
	// Proc and Groups are the node's /proc and /sys/fs/cgroup.
	Proc, Groups string
	// Requires returns the requirements that depend on the node.
	Requires func(context.Context) (capability.Requirements, error)
	// Signal sends a signal to a process; [syscall.Kill].
	Signal func(pid int, signal syscall.Signal) error
	// Clock is used for waiting.
	Clock clock.Clock
}

// Dial returns a client of the CRI at a socket. It connects on first use.
func Dial(socket string) (criapi.RuntimeServiceClient, error) {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to the container runtime at %s: %w", socket, err)
	}
	return criapi.NewRuntimeServiceClient(connection), nil
}

// Inspect fails for a container that does not run.
func (f *Freezer) Inspect(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	if _, err := f.group(ctx, c); err != nil {
		return checkpoint.Facts{}, err // State does not report a container of another pod
	}
	state, err := f.State(ctx, c)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	if state != checkpoint.Running {
		return checkpoint.Facts{}, checkpoint.Fail(checkpoint.ReasonNotRunning, "%s is %s: only running containers can be moved", c, state)
	}
	return f.Describe(ctx, c)
}

// Describe is Inspect without the check that the container runs.
func (f *Freezer) Describe(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	answer, err := f.Runtime.ContainerStatus(ctx, &criapi.ContainerStatusRequest{ContainerId: c.ID})
	if err != nil {
		return checkpoint.Facts{}, fmt.Errorf("inspect %s: %w", c, err)
	}
	memory, err := f.memory(ctx, c)
	if err != nil {
		return checkpoint.Facts{}, fmt.Errorf("read the memory usage of %s: %w", c, err)
	}
	needs, err := f.Requires(ctx)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	needs.BaseImage, needs.BaseImageID = answer.GetStatus().GetImage().GetImage(), answer.GetStatus().GetImageId()
	if needs.BaseImageID == "" {
		needs.BaseImageID = answer.GetStatus().GetImageRef()
	}
	return checkpoint.Facts{MemoryBytes: memory, Requirements: needs}, nil
}

// memory returns the expected size of a dump, in bytes. It does not use CRI, because containerd
// has no statistics of a restored container.
func (f *Freezer) memory(ctx context.Context, c checkpoint.Container) (int64, error) {
	g, err := f.group(ctx, c)
	if err != nil || g == nil {
		return 0, err
	}
	pids, err := g.pids()
	if err != nil {
		return 0, err
	}
	return procfs.Memory(f.Proc, pids)
}

// State returns the state of the container's group. If the container with this ID belongs to
// another pod, this container is gone.
func (f *Freezer) State(ctx context.Context, c checkpoint.Container) (checkpoint.State, error) {
	g, err := f.group(ctx, c)
	if err != nil || g == nil {
		return gone(err)
	}
	frozen, err := g.frozen()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkpoint.Gone, nil
	case err != nil:
		return checkpoint.Unknown, fmt.Errorf("check whether %s is frozen: %w", c, err)
	case frozen:
		return checkpoint.Frozen, nil
	}
	return checkpoint.Running, nil
}

// gone returns the state of a container without a group.
func gone(err error) (checkpoint.State, error) {
	if f := checkpoint.AsFailure(err); err != nil && (f == nil || f.Reason != checkpoint.ReasonForeignContainer) {
		return checkpoint.Unknown, err
	}
	return checkpoint.Gone, nil
}

// Freeze freezes the group, and returns once it is frozen.
func (f *Freezer) Freeze(ctx context.Context, c checkpoint.Container) error {
	g, err := f.group(ctx, c)
	if err != nil {
		return err
	}
	if g == nil {
		return checkpoint.Fail(checkpoint.ReasonContainerGone, "%s has ended", c)
	}
	return f.set(ctx, c, g, true)
}

// Thaw thaws the group, and returns once it is thawed.
func (f *Freezer) Thaw(ctx context.Context, c checkpoint.Container) error {
	g, err := f.group(ctx, c)
	if err != nil || g == nil {
		return err
	}
	return f.set(ctx, c, g, false)
}

// Kill sends SIGKILL to the frozen processes, and thaws the group so that they die.
func (f *Freezer) Kill(ctx context.Context, c checkpoint.Container) error {
	g, err := f.group(ctx, c)
	if err != nil || g == nil {
		return err
	}
	pids, err := g.pids()
	if err != nil {
		return fmt.Errorf("list the processes of %s: %w", c, err)
	}
	for _, pid := range pids {
		if err := f.Signal(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d of %s: %w", pid, c, err)
		}
	}
	if err := g.set(false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("thaw %s after killing its processes: %w", c, err)
	}
	return f.until(ctx, fmt.Sprintf("wait until %s has ended", c), func() (bool, error) {
		left, err := g.pids()
		return len(left) == 0 || errors.Is(err, fs.ErrNotExist), nil
	})
}

func (f *Freezer) set(ctx context.Context, c checkpoint.Container, g *group, frozen bool) error {
	doing := fmt.Sprintf("freeze %s", c)
	if !frozen {
		doing = fmt.Sprintf("resume %s", c)
	}
	if err := g.set(frozen); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return f.until(ctx, doing, func() (bool, error) {
		is, err := g.frozen()
		return is == frozen, err
	})
}

// until polls done until it reports true, for at most patience.
func (f *Freezer) until(ctx context.Context, doing string, done func() (bool, error)) error {
	for waited := time.Duration(0); ; waited += settle {
		ok, err := done()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", doing, err)
		case ok:
			return nil
		case waited >= patience:
			return fmt.Errorf("%s: not done after %s", doing, patience)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		case <-f.Clock.After(settle):
		}
	}
}

// group returns the group of a container; nil if the container has ended. It fails with
// ReasonForeignContainer if the container with this ID belongs to another pod, so that such a
// container is never touched.
func (f *Freezer) group(ctx context.Context, c checkpoint.Container) (*group, error) {
	answer, err := f.Runtime.ContainerStatus(ctx, &criapi.ContainerStatusRequest{ContainerId: c.ID, Verbose: true})
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", c, err)
	}
	if !c.Is(answer.GetStatus().GetLabels()) {
		return nil, c.Foreign()
	}
	if answer.GetStatus().GetState() != criapi.ContainerState_CONTAINER_RUNNING {
		return nil, nil
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(answer.GetInfo()["info"]), &info); err != nil || info.PID <= 0 {
		return nil, checkpoint.Fail(checkpoint.ReasonNotSupported, "the container runtime does not report the process of %s: use back-end Containerd", c)
	}
	text, err := os.ReadFile(filepath.Join(f.Proc, strconv.Itoa(info.PID), "cgroup"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the control group of %s: %w", c, err)
	}
	g, err := parseGroup(string(text), f.Groups)
	if err != nil {
		return nil, checkpoint.Fail(checkpoint.ReasonNotSupported, "find the control group of %s: %v", c, err)
	}
	return g, nil
}

// group is the folder of a control group with a freezer.
type group struct {
	dir string
	v2  bool
}

// parseGroup parses a file such as /proc/PID/cgroup. A v1 group with a freezer takes precedence
// over the v2 group, since a hybrid system has both.
func parseGroup(text, root string) (*group, error) {
	var unified *group
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") || !filepath.IsLocal(strings.TrimPrefix(fields[2], "/")) {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "":
			unified = &group{filepath.Join(root, fields[2]), true}
		case fields[1] == "freezer":
			return &group{filepath.Join(root, "freezer", fields[2]), false}, nil
		}
	}
	if unified == nil {
		return nil, errors.New("it has no control group with a freezer")
	}
	return unified, nil
}

// frozen reports whether all processes of the group are frozen.
func (g *group) frozen() (bool, error) {
	if !g.v2 {
		text, err := os.ReadFile(filepath.Join(g.dir, "freezer.state"))
		return strings.TrimSpace(string(text)) == "FROZEN", err
	}
	text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
	return strings.Contains("\n"+string(text), "\nfrozen 1\n"), err
}

// set requests the group to be frozen or thawed.
func (g *group) set(frozen bool) error {
	file, text := "freezer.state", map[bool]string{true: "FROZEN", false: "THAWED"}[frozen]
	if g.v2 {
		file, text = "cgroup.freeze", map[bool]string{true: "1", false: "0"}[frozen]
	}
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0) // not created: the kernel provides the file
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// pids returns the processes of the group.
func (g *group) pids() ([]int, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 1 {
			return nil, fmt.Errorf("%q is not a process ID", field)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
