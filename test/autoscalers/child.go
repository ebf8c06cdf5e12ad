package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// childPatience is how long a program may take to end when it is asked to.
const childPatience = 20 * time.Second

// startChild starts a program that writes to log. What it returns ends the program, and
// returns an error if that had ended before, or does not end by itself.
func startChild(cmd *exec.Cmd, log *os.File) (stop func() error, err error) {
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() error {
		select {
		case err := <-ended:
			return fmt.Errorf("%s has ended by itself (%v): see %s", cmd.Path, err, log.Name())
		default:
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
		select {
		case <-ended: // how is of no interest any more
			return nil
		case <-time.After(childPatience):
			_ = cmd.Process.Kill()
			return fmt.Errorf("%s did not end within %v of SIGTERM: see %s", cmd.Path, childPatience, log.Name())
		}
	}, nil
}
