//go:build nodes

package nodes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
)

const (
	// script starts and stops the programs that the tests need.
	script = "../../../hack/nodes/nodes.sh"

	// sweeper is part of script, and finds leftovers of a cluster.
	sweeper = "cluster/sweep.sh"

	// childVariable makes this test's program start a cluster and wait to be killed.
	childVariable = "SUPERCARGO_NODES_CHILD"

	// patience is the timeout for the start of a cluster.
	patience = 5 * time.Minute
	// childUp is the text that the child prints, before the folder of its cluster, when the cluster is up.
	childUp = "up in "
)

// childMain starts a cluster with a frozen pod, the hardest kind to remove. It ends when it is killed.
func childMain() int {
	ctx := context.Background()
	c, err := cluster.Up(ctx, cluster.Config{Nodes: 1})
	if err == nil {
		err = frozenPod(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(childUp + c.Dir)
	<-c.Done()
	return 1
}

func frozenPod(ctx context.Context, c *cluster.Cluster) error {
	pods := c.Client().CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(ctx, site.NewPod("frozen", cluster.Images["counter"]), metav1.CreateOptions{})
	for err == nil && pod.Status.Phase != corev1.PodRunning {
		pod, err = pods.Get(ctx, "frozen", metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	return pause(ctx, c.Nodes[0], containerID(pod))
}

// startChild runs a command that runs childMain. It returns the folder of the cluster when it is up.
func startChild(t *testing.T, name string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		if dir, ok := strings.CutPrefix(scanner.Text(), childUp); ok {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return cmd, dir
		}
	}
	t.Fatalf("%s did not bring up a cluster within %v: %v", name, patience, cmd.Wait())
	return nil, ""
}

// left returns an error that lists what is left of a cluster, by its folder.
func left(ctx context.Context, dir string) error {
	var errs []error
	if processes, err := withArgument(dir + "/"); err != nil || len(processes) > 0 {
		errs = append(errs, err, fmt.Errorf("processes %v", processes))
	}
	// Also while the guard is still sweeping.
	if out, err := exec.CommandContext(ctx, sweeper, "left", filepath.Base(dir)).CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("%w: %s", err, out))
	}
	return errors.Join(errs...)
}

// withArgument lists the processes that have an argument containing text.
func withArgument(text string) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, entry.Name())
		}
	}
	return found, nil
}

func TestNothingIsLeftOfAClusterWhoseProcessIsEnded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		command []string
		signal  syscall.Signal
	}{
		{"the process is killed", []string{self}, syscall.SIGKILL},
		{"the process is told to end", []string{self}, syscall.SIGTERM},
		{"the script is killed", []string{script, "run", self}, syscall.SIGKILL},
		{"the script is told to end", []string{script, "run", self}, syscall.SIGTERM},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newBench(t)
			cmd, dir := startChild(t, tc.command[0], tc.command[1:]...)
			if processes, err := withArgument(dir + "/"); err != nil || len(processes) < 4 {
				t.Errorf("the cluster in %s has processes %v, %v, want init, containerd, shim and kubelet", dir, processes, err)
			}
			if err := cmd.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("it ended as if nothing had been")
			}
			s.Eventually("nothing is left", func(ctx context.Context) error { return left(ctx, dir) })
		})
	}
	// The other nodes have continued meanwhile.
	s := newBench(t)
	for _, n := range s.Nodes {
		if _, err := n.Run(s.Context(), "ctr", "--address", n.ContainerdSocket, "version"); err != nil {
			t.Errorf("the cluster of the other tests has suffered: %v", err)
		}
	}
}
