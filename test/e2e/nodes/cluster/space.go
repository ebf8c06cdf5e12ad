//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kinds are the types of namespaces that a node has of its own.
const kinds = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS

// space contains the namespaces of a node that is up, and the process with which they end.
type space struct {
	init *process
}

// process is a running program. Its fields may be read once done is closed.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // its exit error; written before done is closed
}

// newSpace starts the first process of a node and returns when its namespaces are ready. What the node writes
// to the folders in own is stored in dir.
func newSpace(ctx context.Context, name, dir string, own []string, log *os.File) (*space, error) {
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start node %s: %w", name, err)
	}
	defer ready.Close()
	cmd := exec.Command(program("init"), append([]string{"-name", name, "-dir", dir}, own...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}
	// The kernel ends the node when this process ends for any reason.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: kinds, Pdeathsig: syscall.SIGKILL}
	init, err := start(cmd, func() error { return nil })
	err = errors.Join(err, theirs.Close())
	if err != nil {
		return nil, fmt.Errorf("start node %s: %w", name, err)
	}
	defer context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		_ = init.cmd.Process.Kill()
		<-init.done
		return nil, fmt.Errorf("start node %s: its first process did not get ready, see %s: %w", name, log.Name(), errors.Join(err, init.err))
	}
	return &space{init: init}, nil
}

// start starts a command from a thread that enter has changed, and reaps it. The same thread waits for the
// command, because Linux ends the command together with the thread that started it.
func start(cmd *exec.Cmd, enter func() error) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine and is not reused
		if err := enter(); err != nil {
			started <- err
			return
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	return p, <-started
}

// enter moves the calling thread into the namespaces. Processes that it starts are in all of them.
func (s *space) enter() error {
	fd, err := unix.PidfdOpen(s.init.cmd.Process.Pid, 0)
	if err != nil {
		return fmt.Errorf("enter namespaces: %w", err)
	}
	init := os.NewFile(uintptr(fd), "first process")
	defer init.Close()
	// All threads share their working directory and root unless a thread unshares them.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter namespaces: %w", err)
	}
	if err := unix.Setns(fd, kinds); err != nil {
		return fmt.Errorf("enter namespaces: %w", err)
	}
	return nil
}

// command prepares a program to run on a node.
func (s *space) command(path string, args []string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + strings.TrimPrefix(olderContainerd()+":"+binDir(), ":") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "LANG=C.UTF-8",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that it receives no Ctrl-C
	return cmd
}

// run runs a command in the namespaces and returns its output when it ends.
func (s *space) run(ctx context.Context, stdin, path string, args ...string) ([]byte, error) {
	out, err := os.OpenFile(os.TempDir(), os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", path, err)
	}
	defer out.Close()
	cmd := s.command(path, args)
	if stdin != "" {
		// With a pipe, Wait would also wait for processes that inherit it.
		in, err := os.OpenFile(os.TempDir(), os.O_RDWR|unix.O_TMPFILE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", path, err)
		}
		defer in.Close()
		if _, err := in.WriteAt([]byte(stdin), 0); err != nil {
			return nil, fmt.Errorf("run %s: %w", path, err)
		}
		cmd.Stdin = in
	}
	cmd.Stdout, cmd.Stderr = out, out
	p, err := start(cmd, s.enter)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		<-p.done
		stop()
		if err = p.err; err != nil {
			err = errors.Join(err, context.Cause(ctx))
		}
	}
	printed, readErr := io.ReadAll(io.NewSectionReader(out, 0, math.MaxInt64))
	if err != nil {
		return printed, fmt.Errorf("run %s %s: %w: %s", path, strings.Join(args, " "), err, printed)
	}
	return printed, readErr
}

// netNS returns a path of the network namespace.
func (s *space) netNS() string { return fmt.Sprintf("/proc/%d/ns/net", s.init.cmd.Process.Pid) }

// end ends all processes in the namespaces, and thereby the namespaces. cgroup may contain frozen processes,
// which do not end until they are thawed.
func (s *space) end(ctx context.Context, cgroup string) error {
	if err := s.init.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the first process: %w", err)
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if err := thaw(cgroup); err != nil {
			return err
		}
		select {
		case <-s.init.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait for the last process to end: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// binDir is the folder of the programs that `nodes.sh install` builds.
func binDir() string { return nodesDir() + "/bin" }

// ProgramPath returns the path of a program that nodes.sh has built, on this machine and on every node.
func ProgramPath(name string) string { return program(name) }

// program implements ProgramPath.
func program(name string) string {
	if dir := olderContainerd(); dir != "" {
		if older := dir + "/" + name; exists(older) {
			return older
		}
	}
	return binDir() + "/" + name
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// olderContainerd returns the folder with another containerd than the newest, or "" if nodes run that.
func olderContainerd() string {
	if version := os.Getenv(ContainerdVariable); version != "" {
		return binDir() + "/containerd-" + version
	}
	return ""
}

// nodesDir returns the folder of built programs and of the state of nodes.
func nodesDir() string {
	if dir := os.Getenv("NODES_DIR"); dir != "" {
		return dir
	}
	return "/var/tmp/supercargo-nodes"
}
