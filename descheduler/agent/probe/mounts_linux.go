package probe

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// outputIn runs a command in a mount namespace, with the root of that, and returns what
// it prints.
func outputIn(mounts string, command *exec.Cmd) ([]byte, error) {
	var output []byte
	ended := make(chan error)
	go func() {
		// For good: the thread ends with the goroutine, and nobody else gets it.
		runtime.LockOSThread()
		err := enter(mounts)
		if err == nil {
			output, err = command.CombinedOutput()
		}
		ended <- err
	}()
	err := <-ended
	return output, err
}

// enter moves the calling thread into a mount namespace. Processes that it starts are in
// it, too.
func enter(mounts string) error {
	namespace, err := os.Open(mounts)
	if err != nil {
		return fmt.Errorf("enter the node's mounts: %w", err)
	}
	defer namespace.Close()
	// The folders a thread is in are those of all threads unless it says so.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter the node's mounts: %w", err)
	}
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the node's mounts: %w", err)
	}
	return nil
}
