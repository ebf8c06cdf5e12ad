// Package cgroup freezes the containers of any runtime, by the freezer of their
// control group, of cgroup v1 or v2. It finds containers by CRI.
//
// It is for runtimes whose own pause cannot be reached. A runtime that does not know that
// a container is frozen may thaw it while it takes a checkpoint; the agent finds that out
// and gives the move up.
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
	// settle is how often the state of a group is looked at that is to change, and
	// patience for how long.
	settle   = 10 * time.Millisecond
	patience = 10 * time.Second
)

// Freezer knows the containers of a node.
type Freezer struct {
	// Runtime is the CRI of the node; see [Dial].
	Runtime criapi.RuntimeServiceClient
	// Proc and Groups are the node's /proc and /sys/fs/cgroup.
	Proc, Groups string
	// Requires is what the node of a container says of itself.
	Requires func(context.Context) (capability.Requirements, error)
	// Signal sends a signal to a process; [syscall.Kill].
	Signal func(pid int, signal syscall.Signal) error
	// Clock is for waiting.
	Clock clock.Clock
}

// Dial connects to the CRI at a socket, when it is first used.
func Dial(socket string) (criapi.RuntimeServiceClient, error) {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("reach the container runtime at %s: %w", socket, err)
	}
	return criapi.NewRuntimeServiceClient(connection), nil
}

// Inspect refuses what does not run.
func (f *Freezer) Inspect(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	if _, err := f.group(ctx, c); err != nil {
		return checkpoint.Facts{}, err // State does not say that it is another pod's
	}
	state, err := f.State(ctx, c)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	if state != checkpoint.Running {
		return checkpoint.Facts{}, checkpoint.Fail(checkpoint.ReasonNotRunning, "%s is %s and not running: only what runs can be moved", c, state)
	}
	return f.Describe(ctx, c)
}

// Describe is Inspect for a container that may be frozen.
func (f *Freezer) Describe(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	answer, err := f.Runtime.ContainerStatus(ctx, &criapi.ContainerStatusRequest{ContainerId: c.ID})
	if err != nil {
		return checkpoint.Facts{}, fmt.Errorf("look at %s: %w", c, err)
	}
	memory, err := f.memory(ctx, c)
	if err != nil {
		return checkpoint.Facts{}, fmt.Errorf("see how much memory %s uses: %w", c, err)
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

// memory is how much a dump will have to write. The CRI is not asked: containerd has no
// figures of a container that was restored.
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

// State looks at the container's group. The pod of a container under whose ID there is one
// of another pod has no such container: it is gone.
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
		return checkpoint.Unknown, fmt.Errorf("see whether %s is frozen: %w", c, err)
	case frozen:
		return checkpoint.Frozen, nil
	}
	return checkpoint.Running, nil
}

// gone is the state of a container that has no group.
func gone(err error) (checkpoint.State, error) {
	if f := checkpoint.AsFailure(err); err != nil && (f == nil || f.Reason != checkpoint.ReasonForeignContainer) {
		return checkpoint.Unknown, err
	}
	return checkpoint.Gone, nil
}

// Freeze freezes the group, and returns once that is done.
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

// Thaw lets the group go on.
func (f *Freezer) Thaw(ctx context.Context, c checkpoint.Container) error {
	g, err := f.group(ctx, c)
	if err != nil || g == nil {
		return err
	}
	return f.set(ctx, c, g, false)
}

// Kill sends SIGKILL to what is frozen, and thaws it so that it dies.
func (f *Freezer) Kill(ctx context.Context, c checkpoint.Container) error {
	g, err := f.group(ctx, c)
	if err != nil || g == nil {
		return err
	}
	pids, err := g.pids()
	if err != nil {
		return fmt.Errorf("find the processes of %s: %w", c, err)
	}
	for _, pid := range pids {
		if err := f.Signal(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d of %s: %w", pid, c, err)
		}
	}
	if err := g.set(false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("let %s die: %w", c, err)
	}
	return f.until(ctx, fmt.Sprintf("wait for %s to die", c), func() (bool, error) {
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

// until waits for what takes a moment.
func (f *Freezer) until(ctx context.Context, doing string, done func() (bool, error)) error {
	for waited := time.Duration(0); ; waited += settle {
		ok, err := done()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", doing, err)
		case ok:
			return nil
		case waited >= patience:
			return fmt.Errorf("%s: it is not so after %s", doing, patience)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		case <-f.Clock.After(settle):
		}
	}
}

// group finds the group of a container; nil if the container has ended. It fails with
// ReasonForeignContainer if the container under that ID is one of another pod, so nothing
// here touches such a one.
func (f *Freezer) group(ctx context.Context, c checkpoint.Container) (*group, error) {
	answer, err := f.Runtime.ContainerStatus(ctx, &criapi.ContainerStatusRequest{ContainerId: c.ID, Verbose: true})
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", c, err)
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
		return nil, checkpoint.Fail(checkpoint.ReasonNotSupported, "the container runtime does not say which process %s is: use back-end Containerd", c)
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

// group is the folder of a control group that can be frozen.
type group struct {
	dir string
	v2  bool
}

// parseGroup reads a file such as /proc/PID/cgroup. A group with a freezer of its own, of
// v1, goes before the one of v2, since a hybrid system has both.
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
		return nil, errors.New("it has none of its own with a freezer")
	}
	return unified, nil
}

// frozen says whether all processes of the group are frozen.
func (g *group) frozen() (bool, error) {
	if !g.v2 {
		text, err := os.ReadFile(filepath.Join(g.dir, "freezer.state"))
		return strings.TrimSpace(string(text)) == "FROZEN", err
	}
	text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
	return strings.Contains("\n"+string(text), "\nfrozen 1\n"), err
}

// set asks for the group to be frozen, or not.
func (g *group) set(frozen bool) error {
	file, text := "freezer.state", map[bool]string{true: "FROZEN", false: "THAWED"}[frozen]
	if g.v2 {
		file, text = "cgroup.freeze", map[bool]string{true: "1", false: "0"}[frozen]
	}
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0) // never made: the kernel has it
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// pids are the processes of the group.
func (g *group) pids() ([]int, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 1 {
			return nil, fmt.Errorf("%q is no process", field)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
