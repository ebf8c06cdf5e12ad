package detect

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// outputIn runs a command in a mount namespace, with the root of that namespace, and returns its
// output.
func outputIn(mounts string, command *exec.Cmd) ([]byte, error) {
	var output []byte
	ended := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, so no other goroutine runs on it.
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

// enter moves the calling thread, and the processes that it starts, into a mount namespace.
func enter(mounts string) error {
	namespace, err := os.Open(mounts)
	if err != nil {
		return fmt.Errorf("enter the node's mount namespace: %w", err)
	}
	defer namespace.Close()
	// Threads share their root and working directory until they unshare them.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter the node's mount namespace: %w", err)
	}
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the node's mount namespace: %w", err)
	}
	return nil
}
