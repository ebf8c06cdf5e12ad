//go:build linux

package cluster

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ContainerdVariable names the environment variable for the containerd of the nodes, such as "2.3": that of
// hack/nodes/runtime/containerd-2.3. If it is empty, nodes run the newest.
const ContainerdVariable = "NODES_CONTAINERD"

// LogsVariable names the folder for the logs of clusters of failed tests. The default is logs/ in NODES_DIR.
const LogsVariable = "NODES_LOGS"

// ForTest starts a cluster for a test, and stops it when the test ends. If the test fails, its logs are kept,
// and the test prints their path.
func ForTest(tb testing.TB, cfg Config) *Cluster {
	tb.Helper()
	c, err := Up(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Err(); err != nil {
			tb.Errorf("the control plane did not last: %v", err)
		}
		if tb.Failed() {
			c.KeepLogs(tb, tb.Name())
		}
		// The test's context is already done.
		if err := c.Down(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// KeepLogs copies the logs of all nodes and of the control plane to a folder with the given name, and logs
// its path in the test.
func (c *Cluster) KeepLogs(tb testing.TB, name string) {
	tb.Helper()
	to := filepath.Join(cmp.Or(os.Getenv(LogsVariable), filepath.Join(nodesDir(), "logs")), strings.ReplaceAll(name, "/", "_"))
	if err := os.RemoveAll(to); err != nil {
		tb.Errorf("keep logs: %v", err)
	}
	folders := map[string]string{filepath.Join(c.Dir, "logs"): to}
	if c.Playground != nil {
		folders[filepath.Join(c.Playground.Dir(), "logs")] = filepath.Join(to, "control-plane")
	}
	for from, to := range folders {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			tb.Errorf("keep logs: %v", err)
		}
	}
	for _, n := range c.Nodes {
		if err := os.CopyFS(filepath.Join(to, n.Name+"-pods"), os.DirFS(n.PodLogs)); err != nil {
			tb.Errorf("keep logs of pods on %s: %v", n.Name, err)
		}
	}
	tb.Logf("the logs of the nodes are in %s", to)
}
