//go:build linux

// Up runs a cluster of real nodes until it is interrupted. `hack/nodes/nodes.sh up` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

func main() {
	nodes := flag.Int("nodes", 2, "how many nodes")
	ready := flag.String("ready", "", "file that says how to reach the cluster, once it is up")
	flag.Parse()
	if err := run(*nodes, *ready); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(nodes int, ready string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c, err := cluster.Up(ctx, cluster.Config{Nodes: nodes})
	if err != nil {
		return err
	}
	err = announce(c, ready)
	if err == nil {
		select {
		case <-ctx.Done():
		case <-c.Done():
			err = c.Err()
		}
	}
	return errors.Join(err, c.Down(context.WithoutCancel(ctx)))
}

// announce writes how to reach the cluster, in shell syntax.
func announce(c *cluster.Cluster, ready string) error {
	var out strings.Builder
	fmt.Fprintf(&out, "export KUBECONFIG=%s\n", c.KubeconfigPath())
	for _, n := range c.Nodes {
		fmt.Fprintf(&out, "# %s: %s, containerd at %s\n", n.Name, n.Address, n.ContainerdSocket)
	}
	// Written atomically, because another process waits for it.
	if err := os.WriteFile(ready+".tmp", []byte(out.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(ready+".tmp", ready)
}
