// Package command has what the command lines of Supercargo share: exit codes, interruption, flags, suggestions and
// the printing of results.
//
// Every command exits with 0 on success, with 1 on failure, and with 2 on bad usage or input. It prints
// results to stdout, and everything else to stderr.
package command

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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"supercargo.dev/supercargo/internal/platform/access"
)

// The exit codes, which scripts rely on.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130 // a second Ctrl-C: nothing was cleaned up
)

// inputError marks an error that the user's input caused.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// BadInput marks an error so that the command exits with the code for bad usage or input. Nil stays
// nil.
func BadInput(err error) error {
	if err == nil {
		return nil
	}
	return &inputError{err: err}
}

// Run runs the command line args, of which the first is the program's name, and returns the exit code. newRoot
// returns the root command for that name.
func Run(ctx context.Context, newRoot func(program string) *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(args[0])
	completeNoFiles(root)
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// Errors before a command runs are usage errors.
	running := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		// cobra checks these after this function.
		if err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
			return err
		}
		running = true
		return nil
	}

	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	err = access.Explain(err)
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	var input *inputError
	if !running || errors.As(err, &input) {
		return ExitUsage
	}
	return ExitFailed
}

// NewRoot completes a root command that has a description and an example: it only has subcommands, suggests
// similar words for mistyped ones, and calls itself what the user called it.
func NewRoot(program string, root *cobra.Command) *cobra.Command {
	// Kubernetes' libraries add a --version flag for their own programs to the global flag set, which
	// cobra would adopt.
	pflag.CommandLine = pflag.NewFlagSet(program, pflag.ContinueOnError)
	root.Use = "supercargo"
	root.Version = CurrentVersions().Supercargo
	root.Args = OnlyCommands
	root.SilenceErrors = true // Run prints them
	root.SilenceUsage = true
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}
	switch called := filepath.Base(program); {
	case strings.HasPrefix(called, "kubectl-"):
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl supercargo"}
	case called == "supercargo-lab":
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: called}
	}
	root.SetFlagErrorFunc(SuggestFlags)
	ListClusterApart(root)
	return root
}

// Interruptible returns a context that the first SIGINT or SIGTERM cancels. A later one exits the process, unless it comes within
// [sameInterruption] of the first.
func Interruptible(parent context.Context, stderr io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		interrupted(signals, time.Now, cancel)
		fmt.Fprintln(stderr, "supercargo: interrupted again, exiting without cleaning up")
		os.Exit(ExitInterrupted)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// sameInterruption is how long after the first signal others count as the same interruption: timeout of GNU coreutils sends one to
// the process and one to its group, and a shell in which somebody presses Ctrl-C may pass on a second one.
const sameInterruption = time.Second

// interrupted cancels after the first signal, and returns when there is one of another interruption.
func interrupted(signals <-chan os.Signal, now func() time.Time, cancel func()) {
	first := now()
	cancel()
	for range signals {
		if now().Sub(first) >= sameInterruption {
			return
		}
	}
}
