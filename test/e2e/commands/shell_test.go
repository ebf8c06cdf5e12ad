//go:build commands

package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// root is the root of the repository.
const root = "../../.."

// patience is the timeout of one command.
const patience = 5 * time.Minute

// shell runs commands in a folder that is laid out like a checkout.
type shell struct {
	*testing.T
	folder string
	env    []string
}

// newShell makes a folder with the files that the commands of the documentation read.
func newShell(t *testing.T) *shell {
	t.Helper()
	bin := os.Getenv("SUPERCARGO_BIN")
	if bin == "" {
		t.Fatal("SUPERCARGO_BIN does not name the folder of the binaries: run `make e2e-commands`")
	}
	s := &shell{T: t, folder: t.TempDir()}
	s.link(bin, "bin")
	for _, name := range []string{"cmd", "manifests", "test", "docs"} {
		s.link(filepath.Join(root, name), name)
	}
	s.env = append(os.Environ(), "PATH="+s.folder+"/bin:"+s.folder+"/bin/tools:"+os.Getenv("PATH"),
		"KUBECONFIG="+s.folder+"/playground.kubeconfig", "HOME="+s.folder)
	return s
}

func (s *shell) link(target, name string) {
	s.Helper()
	path, err := filepath.Abs(target)
	if err == nil {
		err = os.Symlink(path, filepath.Join(s.folder, name))
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shell) write(name, content string) {
	s.Helper()
	testfile.Write(s, filepath.Join(s.folder, name), content)
}

// output collects what a command prints.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// start starts a command in its own process group, which is killed when the test ends.
func (s *shell) start(text string) (ended <-chan error, out *output, interrupt func()) {
	s.Helper()
	out = &output{}
	cmd := exec.Command("bash", "-c", "set -o pipefail; "+text)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.folder, s.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	signal := func(sig syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, sig) } // an error means that it has already ended
	s.Cleanup(func() { signal(syscall.SIGKILL) })
	return done, out, func() { signal(syscall.SIGTERM) }
}

// run runs a command and returns its output.
func (s *shell) run(text string) (string, error) {
	s.Helper()
	ended, out, interrupt := s.start(text)
	select {
	case err := <-ended:
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
		return out.String(), err
	case <-time.After(patience):
		interrupt()
		return out.String(), fmt.Errorf("it has not ended after %v\n%s", patience, out)
	}
}

// must runs a command that must succeed.
func (s *shell) must(text string) {
	s.Helper()
	if _, err := s.run(text); err != nil {
		s.Fatalf("%s: %v", text, err)
	}
}

// runUntil runs a command until its output matches, then terminates it. It returns an error if the command ends earlier.
func (s *shell) runUntil(text, match string) error {
	s.Helper()
	ended, out, interrupt := s.start(text)
	if err := s.until(ended, out, match); err != nil {
		return err
	}
	interrupt()
	select {
	case err := <-ended:
		s.Logf("it ended: %v", err) // its exit code depends on the program
		return nil
	case <-time.After(time.Minute):
		return errors.New("it does not end a minute after SIGTERM")
	}
}

// until waits until the output of a command matches. It returns an error if the command ends first, or after patience.
func (s *shell) until(ended <-chan error, out *output, match string) error {
	wanted := regexp.MustCompile(match)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !wanted.MatchString(out.String()) {
		select {
		case err := <-ended:
			if wanted.MatchString(out.String()) {
				return nil
			}
			return fmt.Errorf("it ended (%w) before it printed %q:\n%s", cmp.Or(err, errors.New("exit status 0")), match, out)
		case <-ctx.Done():
			return fmt.Errorf("it does not print %q:\n%s", match, out)
		case <-ticker.C:
		}
	}
	return nil
}

// playground starts a playground, waits until it is ready, and stops it when the test ends.
func (s *shell) playground(text string) {
	s.Helper()
	ended, out, interrupt := s.start(text)
	if err := s.until(ended, out, `(?m)^ready$`); err != nil {
		s.Fatalf("%s: %v", text, err)
	}
	s.Cleanup(func() {
		interrupt()
		if err := <-ended; s.Failed() {
			text := out.String()
			s.Logf("the playground (%v), last 4 kB:\n%s", err, text[max(0, len(text)-4096):])
		}
	})
}

// prints changes a command so that it does not fail when a grep at its end finds nothing.
func prints(text string) string {
	if command, filter, filtered := strings.Cut(text, " | grep "); filtered {
		return command + " | { grep " + filter + "; true; }"
	}
	return text
}
