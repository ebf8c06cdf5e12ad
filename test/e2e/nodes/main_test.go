//go:build nodes

package nodes

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
)

// theCluster is started by the first test that needs it. All tests share it; a test that kills nodes starts
// them again.
var theCluster = sync.OnceValues(func() (*cluster.Cluster, error) {
	return cluster.Up(context.Background(), cluster.Config{})
})

var started bool

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(childMain())
	}
	if root := os.Getenv(checkerVariable); root != "" {
		os.Exit(checkerMain(root))
	}
	code := m.Run()
	if started {
		if c, err := theCluster(); err == nil {
			if err := c.Down(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// bench is the cluster as used by one test, with its own namespace.
type bench struct {
	*site.Site
	*cluster.Cluster
}

func newBench(t *testing.T) *bench {
	t.Helper()
	started = true
	c, err := theCluster()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{site.New(t, c), c}
}
