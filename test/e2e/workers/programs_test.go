//go:build workers

package workers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// The timeout of a wait, and its polling interval.
const (
	patience = 3 * time.Minute
	poll     = 200 * time.Millisecond
)

// until waits for a condition, and reports its last state on a timeout.
func until(t *testing.T, what string, met func() (bool, any)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.Tick(poll); ; {
		ok, last := met()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after %v; last was %v", what, patience, last)
		case <-tick:
		}
	}
}

// program starts a program that is ended with the test, and returns a channel that is closed when it ends by
// itself. Its output is shown if the test fails.
func program(t *testing.T, dir string, args ...string) <-chan struct{} {
	t.Helper()
	_, ended := launch(t, dir, args...)
	return ended
}

// launch is program that also returns the process.
func launch(t *testing.T, dir string, args ...string) (*os.Process, <-chan struct{}) {
	t.Helper()
	path, err := exec.LookPath(args[0])
	if err != nil {
		t.Fatalf("%v: install Debian's coop-computing-tools (apt-get install --no-install-recommends coop-computing-tools)", err)
	}
	log := filepath.Join(t.TempDir(), filepath.Base(args[0])+".log")
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	// Debian's makeflow is linked to Open MPI, which refuses root and looks for ssh.
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_plm_rsh_agent=", "OMPI_MCA_ess_singleton_isolated=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its errors are in its log
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Process.Signal(syscall.SIGCONT) // a test may have stopped it
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		output.Close()
		if t.Failed() {
			said, _ := os.ReadFile(log)
			t.Logf("%s said:\n%s", args[0], said[max(0, len(said)-4000):])
		}
	})
	return cmd.Process, ended
}

// freePort returns a port without a listener.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// startCatalog starts a catalog server and returns its address.
func startCatalog(t *testing.T) string {
	t.Helper()
	port := strconv.Itoa(freePort(t))
	program(t, t.TempDir(), "catalog_server", "-p", port, "-H", t.TempDir(), "-I", "127.0.0.1")
	return net.JoinHostPort("127.0.0.1", port)
}

// workflow is a running Makeflow.
type workflow struct {
	dir          string
	passwordFile string
	password     string
	ended        <-chan struct{}
}

// startWorkflow runs a workflow of six tasks of one core that take some seconds, and one task of two cores
// that joins them.
func startWorkflow(t *testing.T, project, catalog string) workflow {
	t.Helper()
	var rules strings.Builder
	fmt.Fprint(&rules, ".MAKEFLOW CATEGORY split\nCORES=1\nMEMORY=100\nDISK=10\n")
	var parts []string
	for i := range 6 {
		part := fmt.Sprintf("part.%d", i)
		parts = append(parts, part)
		fmt.Fprintf(&rules, "%s:\n\tsleep 5; echo %d > %s\n", part, i, part)
	}
	all := strings.Join(parts, " ")
	fmt.Fprintf(&rules, ".MAKEFLOW CATEGORY join\nCORES=2\nMEMORY=100\nDISK=10\nall: %s\n\tcat %s > all\n", all, all)

	w := workflow{dir: t.TempDir(), password: "not a secret\n"} // the newline is part of it
	w.passwordFile = filepath.Join(w.dir, "password")
	for name, content := range map[string]string{"flow.makeflow": rules.String(), "password": w.password} {
		testfile.Write(t, filepath.Join(w.dir, name), content)
	}
	w.ended = program(t, w.dir, "makeflow", "-T", "wq", "-p", "0", "-N", project, "-C", catalog, "--password", w.passwordFile, "flow.makeflow")
	return w
}
