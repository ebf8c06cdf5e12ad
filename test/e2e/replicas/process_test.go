//go:build replicas

package replicas

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The timeout of a wait, and its polling interval.
const (
	patience = time.Minute
	poll     = 10 * time.Millisecond
)

// until waits for a condition.
func until(ctx context.Context, what string, met func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for tick := time.Tick(poll); ; {
		ok, last := met()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, patience, errors.Join(context.Cause(ctx), last))
		case <-tick:
		}
	}
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// buildService compiles the service, and returns the program's path.
func buildService(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "service")
	if said, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./service").CombinedOutput(); err != nil {
		t.Fatalf("build the service: %v\n%s", err, said)
	}
	return program
}

// hurry raises the priority of this process, because it times the requests. New threads inherit the priority
// of the thread that creates them.
func hurry(t *testing.T) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, -15); err != nil {
			t.Logf("thread %d stays as slow as others: %v", id, err)
		}
	}
}
