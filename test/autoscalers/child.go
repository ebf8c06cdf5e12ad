package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// childPatience is how long a program may take to end after SIGTERM.
const childPatience = 20 * time.Second

// startChild starts a program that writes to log. The returned function ends the program. It returns an error
// if the program had already ended, or does not end after SIGTERM.
func startChild(cmd *exec.Cmd, log *os.File) (stop func() error, err error) {
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var exit error // of the process, once it has ended
	ended := make(chan struct{})
	go func() {
		exit = cmd.Wait()
		close(ended)
	}()
	return func() error {
		select {
		case <-ended:
			if exit == nil {
				exit = errors.New("exit status 0")
			}
			return fmt.Errorf("%s has ended by itself: %w: see %s", cmd.Path, exit, log.Name())
		default:
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
		select {
		case <-ended: // the exit status no longer matters
			return nil
		case <-time.After(childPatience):
			_ = cmd.Process.Kill()
			return fmt.Errorf("%s did not end within %v of SIGTERM: see %s", cmd.Path, childPatience, log.Name())
		}
	}, nil
}
