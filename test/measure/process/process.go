// Package process runs the programs that are measured.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Used is what a program took from start to exit.
type Used struct {
	Time time.Duration
	// PeakMemoryMiB is its peak resident memory.
	PeakMemoryMiB float64
}

// Output runs a program to its end and returns its standard output. Its error contains what the program wrote to
// standard error.
func Output(ctx context.Context, program string, args ...string) ([]byte, Used, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	start := time.Now()
	out, err := cmd.Output()
	used := Used{Time: time.Since(start)}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, used, err
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, used, errors.New("this system does not tell the memory of a process")
	}
	used.PeakMemoryMiB = float64(usage.Maxrss) / 1024
	return out, used, nil
}

// patience is how long a program may take to end after SIGTERM.
const patience = 20 * time.Second

// Start starts a program that writes to log. The returned function ends the program, and must be called
// once. It returns an error if the program had already ended, or does not end after SIGTERM.
func Start(cmd *exec.Cmd, log *os.File) (stop func() error, err error) {
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var exit error
	ended := make(chan struct{}) // closed when exit is known
	go func() { exit = cmd.Wait(); close(ended) }()
	return func() error {
		if errors.Is(cmd.Process.Signal(syscall.SIGTERM), os.ErrProcessDone) {
			<-ended
			if exit == nil {
				exit = errors.New("exit status 0")
			}
			return fmt.Errorf("%s has ended by itself: %w: see %s", cmd.Path, exit, log.Name())
		}
		select {
		case <-ended:
			return nil // the exit status no longer matters
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			return fmt.Errorf("%s did not end within %v of SIGTERM: see %s", cmd.Path, patience, log.Name())
		}
	}, nil
}

// FreeAddress returns an address of this machine without a listener.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
