// Package cli is the command line of the program supercargo, one file per command.
//
// Every command exits with 0 on success, with 1 on failure, and with 2 on bad usage or input. It prints
// results to stdout, and everything else to stderr.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes, which scripts rely on.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // a second Ctrl-C: nothing was cleaned up
)

// inputError marks an error that the user's input caused.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// badInput marks an error so that the command exits with the code for bad usage or input. Nil stays
// nil.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return &inputError{err: err}
}

// Main runs the command line args, of which the first is the program's name, and returns the exit code.
// The first SIGINT or SIGTERM stops the command gracefully, the second one immediately.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := interruptible(context.Background(), stderr)
	defer stop()
	return run(ctx, args, stdin, stdout, stderr)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand(args[0])
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// Errors before a command runs are usage errors.
	running := false
	root.PersistentPreRun = func(*cobra.Command, []string) { running = true }

	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	var input *inputError
	if !running || errors.As(err, &input) {
		return exitUsage
	}
	return exitFailed
}

func newRootCommand(program string) *cobra.Command {
	// Kubernetes' libraries add a --version flag for their own programs to the global flag set, which
	// cobra would adopt.
	pflag.CommandLine = pflag.NewFlagSet(program, pflag.ContinueOnError)
	root := &cobra.Command{
		Use:   "supercargo",
		Short: "Schedule, scale and move pods so that a cluster of unequal machines costs less money and energy",
		Example: `  # Run a control plane on this machine, with ten nodes simulated by kwok
  supercargo playground --nodes 10

  # See what Supercargo saves on a real trace
  supercargo demo

  # Simulate what it would save on your own load
  supercargo simulate -f scenario.yaml --report report.html

  # Find the cheapest machines for a set of pods
  supercargo plan --pods pods.csv --flavors flavors.csv

  # Explain why a pod is pending, why it is on its node, and what would move it
  supercargo explain pod work-0-x7k2p -n jobs`,
		Version:       currentVersions().Supercargo,
		Args:          onlyCommands,
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	if strings.HasPrefix(filepath.Base(program), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl supercargo"}
	}
	root.SetFlagErrorFunc(suggestFlags)
	addGroup(root, "cluster", "Cluster:",
		newAuditCommand(), newDashboardCommand(), newExplainCommand(), newMigrateCommand(), newPauseCommand(), newRecordCommand(), newReportCommand(), newResumeCommand())
	addGroup(root, "plan", "Plan and simulate:",
		newFitCommand(), newPlanCommand(), newReplicasCommand(), newSimulateCommand(), newWorkersCommand())
	addGroup(root, "laboratory", "Laboratory:",
		newDemoCommand(), newPlaygroundCommand())
	root.AddCommand(newVersionCommand())
	listClusterApart(root)
	return root
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels. The
// second exits the process.
func interruptible(parent context.Context, stderr io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			return
		}
		<-signals
		fmt.Fprintln(stderr, "supercargo: interrupted again, exiting without cleaning up")
		os.Exit(exitInterrupted)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}
