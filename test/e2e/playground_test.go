//go:build e2e

package e2e

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	startTimeout = 3 * time.Minute // it takes seconds; a loaded machine takes longer
	podTimeout   = 2 * time.Minute
)

// TestPlaygroundRunsPodsAndLeavesNothing tests the whole life of a playground.
func TestPlaygroundRunsPodsAndLeavesNothing(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	playground := start(t, "supercargo", "playground", "--nodes", "3", "--kubeconfig", kubeconfig)
	if before := playground.waitLine(t, "ready", startTimeout); !slices.Contains(before, kubeconfig) {
		t.Errorf("output before ready = %q, want the kubeconfig's path %s", before, kubeconfig)
	}
	ctx, cancel := context.WithTimeout(t.Context(), podTimeout)
	defer cancel()
	client := connect(t, kubeconfig)
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list nodes: %v", err)
	}
	if len(nodes.Items) != 3 {
		t.Errorf("%d nodes, want 3", len(nodes.Items))
	}

	if _, err := client.AppsV1().Deployments("default").Create(ctx, webDeployment(4), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create Deployment: %v", err)
	}
	if _, err := client.BatchV1().Jobs("default").Create(ctx, batchJob(3), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create Job: %v", err)
	}
	waitStarted(ctx, t, client, "app=web", 4)
	waitStarted(ctx, t, client, "app=batch", 3)

	playground.stop(t, syscall.SIGTERM)
}

// TestInterruptedStartLeavesNothing interrupts a playground that is not ready yet.
func TestInterruptedStartLeavesNothing(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	playground := start(t, "supercargo", "playground", "--nodes", "1", "--kubeconfig", kubeconfig)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, startTimeout, true,
		func(context.Context) (bool, error) {
			_, err := os.Stat(kubeconfig)
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return err == nil, err
		})
	if err != nil {
		t.Fatalf("wait for the kubeconfig: %v", err)
	}
	playground.stop(t, os.Interrupt)
}

func TestBadUsageExitsWithTwo(t *testing.T) {
	for _, args := range [][]string{
		{"no-such-command"},
		{"playground", "--no-such-flag"},
		{"playground", "--nodes", "-1"},
		{"playground", "--workload", "/does/not/exist"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			cmd := exec.Command(binary(t, "supercargo"), args...)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("%v, want exit code 2", err)
			}
			if stderr.Len() == 0 || stdout.Len() > 0 {
				t.Errorf("stdout = %q, stderr = %q, want the error on stderr alone", &stdout, &stderr)
			}
		})
	}
}

// TestKubeSchedulerSpeaksForItsKubernetes checks the reported version, which clients and operators compare
// with the cluster's.
func TestKubeSchedulerSpeaksForItsKubernetes(t *testing.T) {
	out, err := exec.Command(binary(t, "kube-scheduler"), "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("--version: %v\n%s", err, out)
	}
	if got := strings.TrimSpace(string(out)); !strings.HasPrefix(got, "Kubernetes v1.35.") {
		t.Errorf("--version prints %q, want Kubernetes v1.35.x", got)
	}
}
