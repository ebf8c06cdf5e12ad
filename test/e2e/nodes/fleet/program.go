//go:build linux

package fleet

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Program is a program that runs beside this process.
type Program struct {
	path, log string
	args      []string
	cmd       *exec.Cmd
	ended     chan struct{}
}

// Start starts the program. It ends with this process.
func (p *Program) Start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.ended = make(chan struct{})
	started := make(chan error)
	go func(cmd *exec.Cmd, ended chan struct{}) {
		// Linux ends the program together with the thread that started it, and Go ends threads that
		// goroutines have modified and left locked. This thread lives as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its exit status is irrelevant after the signal
		}
		close(ended)
	}(p.cmd, p.ended)
	return <-started
}

// Kill ends the program at once.
func (p *Program) Kill(ctx context.Context) error { return p.signal(ctx, syscall.SIGKILL) }

// Stop sends SIGTERM to the program, and waits until it has ended.
func (p *Program) Stop(ctx context.Context) error { return p.signal(ctx, syscall.SIGTERM) }

func (p *Program) signal(ctx context.Context, s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
