//go:build openstack

package openstack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// marked returns the processes with the mark of services in a directory.
func marked(t *testing.T, dir string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains("\x00"+string(text), "\x00OPENSTACK_MARK="+dir+"\x00") { // otherwise it has ended
			found = append(found, file)
		}
	}
	return found
}

func TestWhatEndsTheScriptEndsTheServices(t *testing.T) {
	t.Parallel()
	first, err := strconv.Atoi(os.Getenv("OPENSTACK_PORT"))
	if err != nil {
		t.Fatalf("OPENSTACK_PORT: %v", err)
	}
	for i, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("/var/tmp", "openstack-end-") // short, because it contains a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			p := &project{T: t, patience: patience}
			cmd := exec.Command(os.Getenv(variableScript), "run", "true")
			cmd.Env = append(os.Environ(), "OPENSTACK_DIR="+dir, fmt.Sprintf("OPENSTACK_PORT=%d", first+100*(i+1)))
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
			p.try("start the script", cmd.Start())
			p.eventually("services run", func() string {
				if _, err := os.Stat(filepath.Join(dir, "run", "rabbit.pid")); err != nil {
					return err.Error()
				}
				return ""
			})
			p.try("end the script", cmd.Process.Signal(signal))
			if err := cmd.Wait(); err == nil {
				t.Error("the script has succeeded")
			}
			if signal == syscall.SIGKILL { // with other signals the script itself waits until services have stopped
				p.eventually("nothing runs", func() string { return strings.Join(marked(t, dir), " ") })
			}
			if left := marked(t, dir); len(left) > 0 {
				t.Errorf("still there: %v", left)
			}
		})
	}
}
