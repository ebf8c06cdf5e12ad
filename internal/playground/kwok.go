package playground

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KwokEnv names the environment variable that says where the kwok program is.
const KwokEnv = "SUPERCARGO_KWOK"

// kwokConfig says how kwok plays nodes and pods.
//
//go:embed stages.yaml
var kwokConfig []byte

// FindKwok returns the path of the kwok program: path itself when given, else
// the one that SUPERCARGO_KWOK names, else the first found beside the running
// program, in a test in bin/ of the Go module it belongs to, and on PATH.
func FindKwok(path string) (string, error) {
	if path != "" {
		return checkProgram(path, "the given path")
	}
	if path := os.Getenv(KwokEnv); path != "" {
		return checkProgram(path, KwokEnv)
	}
	var candidates []string
	if self, err := os.Executable(); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(self), "kwok"))
	}
	// Elsewhere this would run a program for no better reason than that the
	// user stands in somebody's source tree.
	if testing.Testing() {
		for _, root := range moduleRoots() {
			candidates = append(candidates, filepath.Join(root, "bin", "kwok"))
		}
	}
	for _, candidate := range candidates {
		if path, err := checkProgram(candidate, ""); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath("kwok"); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("find kwok, which plays the nodes: it is neither beside this program nor on PATH; "+
		"run `make build`, which puts it beside supercargo, or set %s to it", KwokEnv)
}

func checkProgram(path, from string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = &fs.PathError{Op: "run", Path: path, Err: errors.New("not an executable file")}
	}
	if err != nil {
		return "", fmt.Errorf("find kwok at %s: %w", from, err)
	}
	return filepath.Abs(path)
}

// moduleRoots returns the directories upwards that hold a go.mod, nearest first.
func moduleRoots() []string {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	var roots []string
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			roots = append(roots, dir)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return roots
		}
		dir = parent
	}
}

// startKwok starts kwok as a child process. That it plays the nodes is seen by
// [Playground.waitReady].
func (p *Playground) startKwok(ctx context.Context) error {
	fail := func(err error) error {
		return &componentError{doing: "start", name: "kwok", log: kwokLog, err: err}
	}
	path, err := FindKwok(p.opts.KwokPath)
	if err != nil {
		return fail(err)
	}
	// In a directory that is resumed, the nodes' leases still name the kwok of
	// before, and the new one would wait until they have run out.
	leases := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fail(fmt.Errorf("delete old node leases: %w", err))
	}
	config := filepath.Join(p.state.dir, "kwok.yaml")
	if err := writeFile(config, kwokConfig); err != nil {
		return fail(err)
	}
	cmd := exec.Command(path,
		"--kubeconfig="+p.state.kubeconfig,
		"--config="+config,
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector="+kwokAnnotation+"="+kwokFake,
		"--node-port=0", // do not serve a kubelet's API
	)
	cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+p.state.dir) // not the user's own configuration
	cmd.Dir = p.state.dir
	cmd.Stdout = p.logs.writer(kwokLog)
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = childAttributes()

	started := make(chan error, 1)
	c := startComponent("kwok", kwokLog, func(ctx context.Context) error { return runChild(ctx, cmd, started) })
	if err := <-started; err != nil {
		return errors.Join(fail(err), c.stop())
	}
	return p.add(c)
}

// killAfter is how long a child may take to end after SIGTERM.
const killAfter = 5 * time.Second

// runChild runs cmd until it ends or ctx does, and reaps it. It reports on
// started whether there is a process.
func runChild(ctx context.Context, cmd *exec.Cmd, started chan<- error) error {
	// Linux sends the parent-death signal when the thread that started the
	// child ends, so that thread must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err != nil {
		return err
	}
	cmd.WaitDelay = killAfter // for grandchildren that keep the log open
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case <-stopped:
			return
		case <-ctx.Done():
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		select {
		case <-stopped:
		case <-time.After(killAfter):
			_ = cmd.Process.Kill()
		}
	}()
	return cmd.Wait()
}
