// Command measure measures programs and policies of this repository, each with a subcommand. Results go to
// standard output, as JSON or as tables for docs/benchmarks.md. What is under way goes to standard error.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"supercargo.dev/supercargo/test/measure/autoscalers"
	"supercargo.dev/supercargo/test/measure/disruption"
	"supercargo.dev/supercargo/test/measure/dump"
	"supercargo.dev/supercargo/test/measure/gpushare"
	"supercargo.dev/supercargo/test/measure/plan"
	"supercargo.dev/supercargo/test/measure/replicas"
	"supercargo.dev/supercargo/test/measure/round"
	"supercargo.dev/supercargo/test/measure/scheduler"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	klog.SetLogger(logr.Discard())
	root := &cobra.Command{Use: "measure", Short: "Measure programs and policies", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(simulateCommand(), probeCommand(), sensitivityCommand(), consolidationCommand(),
		autoscalers.Command(), disruption.Command(), dump.Command(), gpushare.Command(), plan.Command(), replicas.Command(), round.Command(), scheduler.Command())
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}
