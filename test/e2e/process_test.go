//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// markVariable is set in the environment of every process that a test starts. Children inherit it, so
// leftover processes can be found regardless of their parent, name or process group.
const markVariable = "SUPERCARGO_E2E_MARK"

const stopTimeout = time.Minute

// process is a running binary.
type process struct {
	cmd    *exec.Cmd
	mark   string
	exited chan struct{}
	lines  chan string // standard output, closed at its end

	mu     sync.Mutex
	stderr bytes.Buffer
}

// Write collects standard error.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

// binary returns the path of a binary that `make build` has built.
func binary(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SUPERCARGO_BIN")
	if dir == "" {
		t.Fatal("SUPERCARGO_BIN does not name the folder of the binaries: run `make e2e`")
	}
	return filepath.Join(dir, name)
}

// start runs a binary, at the latest until the test ends.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{
		cmd:    exec.Command(binary(t, name), args...),
		mark:   fmt.Sprintf("%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano()),
		exited: make(chan struct{}),
		lines:  make(chan string, 1000),
	}
	p.cmd.Env = append(os.Environ(), markVariable+"="+p.mark)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stderr = p
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.exited)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
		_ = p.cmd.Wait() // the exit code is read from ProcessState
	}()
	t.Cleanup(func() { p.killAll(t) })
	return p
}

// killAll kills all processes that the process has left, and shows its errors if the test has failed.
func (p *process) killAll(t *testing.T) {
	for _, pid := range p.alive(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("kill %d: %v", pid, err)
		}
	}
	<-p.exited
	if t.Failed() {
		p.mu.Lock()
		defer p.mu.Unlock()
		t.Logf("standard error, last 8 kB:\n%s", p.stderr.Bytes()[max(0, p.stderr.Len()-8192):])
	}
}

// waitLine reads standard output up to a line.
func (p *process) waitLine(t *testing.T, want string, timeout time.Duration) (before []string) {
	t.Helper()
	deadline := time.After(timeout)
	for {
		select {
		case line, open := <-p.lines:
			if !open {
				t.Fatalf("output ended before a line %q; it was %q", want, before)
			}
			if line == want {
				return before
			}
			before = append(before, line)
		case <-deadline:
			t.Fatalf("no line %q within %v; output so far: %q", want, timeout, before)
		}
	}
}

// waitExit returns the exit code.
func (p *process) waitExit(t *testing.T, timeout time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(timeout):
		t.Fatalf("still running after %v", timeout)
		return -1
	}
}

// stop sends a termination signal to the process, and checks that it exits cleanly.
func (p *process) stop(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("send %v: %v", sig, err)
	}
	if code := p.waitExit(t, stopTimeout); code != 0 {
		t.Errorf("exit code after %v = %d, want 0", sig, code)
	}
	if left := p.alive(t); len(left) > 0 {
		t.Errorf("processes left running after %v: %v", sig, left)
	}
}

// alive lists the processes with the mark: the process itself and all its descendants.
func (p *process) alive(t *testing.T) []int {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range environments {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, or belongs to another user
		}
		if !bytes.Contains(content, []byte(markVariable+"="+p.mark+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
