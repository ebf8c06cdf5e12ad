//go:build linux

// Up runs a cluster made by kubeadm until it is told to end, for trying things out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"supercargo.dev/supercargo/test/e2e/install/kubeadm"
)

func main() {
	workers := flag.Int("workers", 2, "how many nodes beside that of the control plane")
	policy := flag.String("audit-policy", "", "file with an audit Policy")
	flag.Parse()
	if err := run(*workers, *policy); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(workers int, policy string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	audit, err := os.ReadFile(policy)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	c, err := kubeadm.Up(ctx, kubeadm.Config{Workers: workers, AuditPolicy: audit, Say: say})
	if err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\n", c.Kubeconfig)
	<-ctx.Done()
	return errors.Join(c.Down(context.WithoutCancel(ctx)))
}
