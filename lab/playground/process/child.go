package process

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// StartChild starts a child process that logs to the log of its component. It returns an error if
// the process cannot be started; later failures are reported by the component. When the process
// exits by itself and again is not nil, again decides whether to restart it.
func (g *Group) StartChild(name, log string, command func() *exec.Cmd, again func(context.Context, error) bool) error {
	c, err := g.NewChild(name, log, command, again)
	if err != nil {
		return err
	}
	return g.Add(c)
}

// NewChild is StartChild without reporting the child's end: the caller adds the component or stops
// it.
func (g *Group) NewChild(name, log string, command func() *exec.Cmd, again func(context.Context, error) bool) (*Component, error) {
	first := make(chan error, 1)
	c := Start(name, log, func(ctx context.Context) error {
		for started := first; ; started = make(chan error, 1) {
			cmd := command()
			cmd.Env = withGCPercent(cmd.Environ())
			cmd.Dir = g.dir
			cmd.Stdout = g.logs.writer(log)
			cmd.Stderr = cmd.Stdout
			cmd.SysProcAttr = childAttributes()
			err := runChild(ctx, cmd, started)
			if ctx.Err() != nil || again == nil || !again(ctx, err) {
				return err
			}
		}
	})
	if err := <-first; err != nil {
		return nil, errors.Join(&Error{Doing: "start", Name: name, Log: log, Err: err}, c.Stop())
	}
	return c, nil
}

// killAfter is the time from SIGTERM to SIGKILL.
const killAfter = 5 * time.Second

// runChild runs cmd until it or ctx ends, and reaps it. It sends the result of the start to
// started.
func runChild(ctx context.Context, cmd *exec.Cmd, started chan<- error) error {
	// Linux sends the parent-death signal when the thread that started the child ends, so that
	// thread must not end earlier.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err != nil {
		return err
	}
	cmd.WaitDelay = killAfter // in case grandchildren keep the log open
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case <-stopped:
			return
		case <-ctx.Done():
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		select {
		case <-stopped:
		case <-time.After(killAfter):
			_ = cmd.Process.Kill()
		}
	}()
	return cmd.Wait()
}
