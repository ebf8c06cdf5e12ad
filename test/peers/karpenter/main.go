// Command karpenter plans with Karpenter's own provisioning scheduler, called as a library, for the pods and
// flavors that `supercargo plan` reads, and prints JSON in the same format. With -drain it drains a node with
// Karpenter's own terminator instead, and with -disrupt it runs Karpenter's own disruption on a cluster of
// [halfempty]. It is a separate module, so that Supercargo does not depend on Karpenter.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/test/halfempty"
)

func main() {
	pods := flag.String("pods", "", "file of pods")
	flavors := flag.String("flavors", "", "file of machines that can be bought")
	node := flag.String("drain", "", "node to drain in the cluster of -kubeconfig, instead of planning")
	file := flag.String("disrupt", "", "file of a cluster of half-empty nodes to consolidate, instead of planning")
	under := conditions{}
	flag.StringVar(&under.budget, "budget", "10%", "with -disrupt: the budget of the NodePool")
	flag.DurationVar(&under.lag, "lag", time.Minute, "with -disrupt: the time from the order of a machine to its node")
	flag.DurationVar(&under.last, "for", 10*time.Minute, "with -disrupt: how long to run")
	flag.BoolVar(&under.processor, "processor-time", false, "with -disrupt: the clock has the processor time, where other programs compute too")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	switch {
	case *node != "":
		err = drain(ctx, *node, os.Stdout)
	case *file != "":
		err = consolidate(ctx, *file, under, os.Stdout)
	default:
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

// consolidate runs Karpenter's disruption on the cluster in a file, and prints the figures as JSON.
func consolidate(ctx context.Context, file string, under conditions, out io.Writer) error {
	var c *halfempty.Cluster
	err := open(file, func(in io.Reader) (err error) {
		c, err = halfempty.Read(in)
		return err
	})
	if err != nil {
		return err
	}
	figures, err := disrupt(ctx, c, under)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(figures)
}

func open(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}
