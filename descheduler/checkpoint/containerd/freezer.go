package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// freezer is the freezer of a container's control group. The agent uses it directly, and not through
// containerd: after a restart, containerd does not know the state of a paused task, so the kubelet
// would kill the container. To containerd and the kubelet, a container frozen here runs.
type freezer struct {
	dir string
	// unified means version 2 of control groups.
	unified bool
}

// freezePoll is how long to wait before a control group is asked again whether it is frozen.
const freezePoll = time.Millisecond

// freezerOf returns the freezer of the container with this ID, which process pid belongs to. The
// error is fs.ErrNotExist if the process has ended.
func (c *Client) freezerOf(pid uint32, id string) (freezer, error) {
	text, err := os.ReadFile(filepath.Join(c.Proc, strconv.FormatUint(uint64(pid), 10), "cgroup"))
	if err != nil {
		return freezer{}, fmt.Errorf("read the control group of process %d: %w", pid, err)
	}
	path, unified := freezerPath(string(text))
	path, found := upTo(path, id)
	if !found {
		return freezer{}, fmt.Errorf("process %d is not in the control group of its container: it is in %q", pid, path)
	}
	f := freezer{dir: filepath.Join(c.HostRoot, "sys/fs/cgroup", path), unified: unified}
	if !unified {
		f.dir = filepath.Join(c.HostRoot, "sys/fs/cgroup/freezer", path)
	}
	return f, nil
}

// freezerPath returns the path of the control group with the freezer in a file such as
// /proc/PID/cgroup. A freezer of version 1 comes before version 2, as for runc: it exists on nodes
// that have both.
func freezerPath(text string) (path string, unified bool) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(fields) < 3:
		case slices.Contains(strings.Split(fields[1], ","), "freezer"):
			return fields[2], false
		case fields[0] == "0" && fields[1] == "":
			path, unified = fields[2], true
		}
	}
	return path, unified
}

// upTo returns the path up to the control group that is named after the container, because a
// container may have made others in it. Another process's ID, used again, does not lead to another
// container.
func upTo(path, id string) (string, bool) {
	parts := strings.Split(path, "/")
	at := slices.IndexFunc(parts, func(part string) bool { return id != "" && strings.Contains(part, id) })
	if at < 0 || slices.Contains(parts, "..") { // ".." is outside of the agent's own namespace
		return path, false
	}
	return strings.Join(parts[:at+1], "/"), true
}

// frozen reports whether all processes are frozen, and by this control group rather than by one
// above it.
func (f freezer) frozen() (bool, error) {
	if f.unified {
		own, err := f.holds("cgroup.freeze", "1")
		if err != nil || !own {
			return false, err
		}
		events, err := os.ReadFile(filepath.Join(f.dir, "cgroup.events"))
		return strings.Contains("\n"+string(events), "\nfrozen 1\n"), freezerError(err)
	}
	frozen, err := f.holds("freezer.state", "FROZEN")
	if err != nil || !frozen {
		return false, err
	}
	own, err := f.holds("freezer.self_freezing", "1")
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // an old kernel
	}
	return own, err
}

// holds reports whether a file has this value.
func (f freezer) holds(file, value string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, file))
	return strings.TrimSpace(string(text)) == value, freezerError(err)
}

// freeze freezes all processes and waits until they are frozen. On an error, they run.
func (f freezer) freeze(ctx context.Context, clk clock.Clock) error {
	err := f.set(true)
	for tries := 1; err == nil; tries++ {
		var done bool
		if done, err = f.frozen(); err != nil || done {
			break
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("not all processes are frozen: %w", context.Cause(ctx))
		case <-clk.After(freezePoll):
			err = f.again(tries)
		}
	}
	if err != nil {
		return errors.Join(err, f.set(false))
	}
	return nil
}

// again repeats the order to freeze. With version 1, a process that is created at the wrong moment
// is missed, and the order has to be given again, from time to time from the beginning.
func (f freezer) again(tries int) error {
	if f.unified {
		return nil
	}
	if tries%50 == 0 {
		if err := f.set(false); err != nil {
			return err
		}
	}
	return f.set(true)
}

// thaw thaws all processes.
func (f freezer) thaw() error { return f.set(false) }

// set writes the state without waiting for it.
func (f freezer) set(frozen bool) error {
	name, value := "freezer.state", map[bool]string{true: "FROZEN", false: "THAWED"}[frozen]
	if f.unified {
		name, value = "cgroup.freeze", map[bool]string{true: "1", false: "0"}[frozen]
	}
	file, err := os.OpenFile(filepath.Join(f.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return freezerError(err)
	}
	_, err = file.WriteString(value)
	return freezerError(errors.Join(err, file.Close()))
}

// freezerError adds to the error of a file what it is of; nil stays nil.
func freezerError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("use the freezer: %w", err)
}
