// Package cli is the command line of the program supercargo-lab, one file per command: what needs a control plane, a
// scheduler or a law, and no cluster of the user's. The program supercargo runs it under the same names.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
)

// Main runs the command line args, of which the first is the program's name, and returns the exit code.
// The first SIGINT or SIGTERM stops the command gracefully, the second one immediately.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := command.Interruptible(context.Background(), stderr)
	defer stop()
	return Run(ctx, args, stdin, stdout, stderr)
}

// Run is Main until ctx ends.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run(ctx, NewRootCommand, args, stdin, stdout, stderr)
}

// NewRootCommand returns the command of all commands, for a program called so.
func NewRootCommand(program string) *cobra.Command {
	root := command.NewRoot(program, &cobra.Command{
		Short: "Try Supercargo on this machine: simulations, a control plane with simulated nodes, a demonstration",
		Example: `  # Run a control plane on this machine, with ten nodes simulated by kwok
  supercargo playground --nodes 10

  # See what Supercargo saves on a real trace
  supercargo demo

  # Simulate what it would save on your own load
  supercargo simulate -f scenario.yaml --report report.html`,
	})
	command.AddGroup(root, "plan", "Plan and simulate:",
		newFitCommand(), newReplicasCommand(), newRightsizeCommand(), newSimulateCommand(), newWorkersCommand())
	command.AddGroup(root, "laboratory", "Laboratory:",
		newDemoCommand(), newPlaygroundCommand())
	root.AddCommand(command.NewVersionCommand())
	return root
}
