//go:build linux

// Command up runs a cluster made with kubeadm until it is interrupted, for experiments. It needs the
// programs that `nodes.sh install-kubeadm` builds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"supercargo.dev/supercargo/test/e2e/install/kubeadm"
)

// auditPolicy records all requests, without bodies.
const auditPolicy = "{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], rules: [{level: Metadata}]}"

func main() {
	workers := flag.Int("workers", 2, "how many nodes beside that of the control plane")
	flag.Parse()
	if err := run(*workers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(workers int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	say := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	c, err := kubeadm.Up(ctx, kubeadm.Config{Workers: workers, AuditPolicy: []byte(auditPolicy), Say: say})
	if err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\n", c.Kubeconfig)
	<-ctx.Done()
	return c.Down(context.WithoutCancel(ctx))
}
