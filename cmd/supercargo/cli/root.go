// Package cli is the command line of the program supercargo, one file per command. Package command has what the
// commands share.
package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
)

// Main runs the command line args, of which the first is the program's name, and returns the exit code.
// The first SIGINT or SIGTERM stops the command gracefully, the second one immediately. A command of the
// laboratory replaces this process.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if isLaboratory(args[1:]) {
		fmt.Fprintf(stderr, "supercargo: %v\n", execLaboratory(args))
		return command.ExitFailed
	}
	ctx, stop := command.Interruptible(context.Background(), stderr)
	defer stop()
	return run(ctx, args, stdin, stdout, stderr)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run(ctx, newRootCommand, args, stdin, stdout, stderr)
}

func newRootCommand(program string) *cobra.Command {
	root := command.NewRoot(program, &cobra.Command{
		Short: "Schedule, scale and move pods so that a cluster of unequal machines costs less money and energy",
		Example: `  # See what a cluster costs, what it could cost, and what prevents savings
  supercargo audit

  # Explain why a pod is pending, why it is on its node, and what would move it
  supercargo explain pod work-0-x7k2p -n jobs

  # Find the cheapest machines for a set of pods
  supercargo plan -f pods.csv --flavors flavors.csv

  # Simulate what Supercargo would save on your own load
  supercargo simulate -f scenario.yaml --report report.html

  # Run a control plane on this machine, with ten nodes simulated by kwok
  supercargo playground --nodes 10

  # See what Supercargo saves on a real trace
  supercargo demo`,
	})
	command.AddGroup(root, "cluster", "Cluster:",
		newAdoptCommand(), newAuditCommand(), newDashboardCommand(), newExplainCommand(), newMigrateCommand(), newPauseCommand(), newRecordCommand(), newReportCommand(), newResumeCommand())
	command.AddGroup(root, "plan", "Plan and simulate:",
		laboratory(program, "fit"), newPlanCommand(), laboratory(program, "replicas"), laboratory(program, "rightsize"), laboratory(program, "simulate"), laboratory(program, "workers"))
	command.AddGroup(root, "laboratory", "Laboratory:",
		laboratory(program, "demo"), laboratory(program, "playground"))
	root.AddCommand(command.NewVersionCommand())
	return root
}
