// Command karpenter plans with Karpenter's own provisioning scheduler, called as a library, for the pods and
// flavors that `supercargo plan` reads, and prints JSON in the same format. With -drain it drains a node with
// Karpenter's own terminator instead. It is a separate module, so that Supercargo does not depend on
// Karpenter.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/cli/planfile"
)

func main() {
	pods := flag.String("pods", "", "file of pods")
	flavors := flag.String("flavors", "", "file of machines that can be bought")
	node := flag.String("drain", "", "node to drain in the cluster of -kubeconfig, in the place of planning")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if *node != "" {
		err = drain(ctx, *node, os.Stdout)
	} else {
		err = run(ctx, *pods, *flavors, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, podsFile, flavorsFile string, out io.Writer) error {
	var pods *planfile.Pods
	err := open(podsFile, func(in io.Reader) (err error) {
		pods, err = planfile.ReadPods(podsFile, in)
		return err
	})
	if err != nil {
		return err
	}
	var flavors []planfile.Flavor
	err = open(flavorsFile, func(in io.Reader) (err error) {
		flavors, err = planfile.ReadFlavors(flavorsFile, in)
		return err
	})
	if err != nil {
		return err
	}
	document, err := solve(ctx, pods.Pods, flavors)
	if err != nil {
		return err
	}
	return document.Write(out)
}

func open(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}
