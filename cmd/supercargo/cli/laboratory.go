package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

// laboratoryProgram holds the commands that bring a control plane or a scheduler of their own, which are most of its
// size.
const laboratoryProgram = "supercargo-lab"

// laboratoryCommands are the commands of that program with their descriptions, which a test compares with it.
var laboratoryCommands = map[string]string{
	"demo":       "Compare Supercargo with the stock scheduler on a real trace",
	"fit":        "Fit models to measurements",
	"playground": "Run a real control plane on this machine, with nodes simulated by kwok",
	"replicas":   "Simulate a service and a law that sets its replicas, on a trace of arrival rates",
	"rightsize":  "Replay measured use over machines whose pods request what they use, at a stated risk",
	"simulate":   "Simulate a workload under several policies, and compare their bills",
	"workers":    "Simulate a workflow on a pool of workers that a law scales",
}

// laboratory returns a command for help and suggestions to list. Running it replaces this process with that of the
// laboratory; Main does so before cobra sees the command line, since cobra would answer help and completion itself.
func laboratory(program, name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              laboratoryCommands[name],
		Example:            "  supercargo " + name + " --help",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return execLaboratory(append([]string{program, name}, args...))
		},
	}
}

// isLaboratory reports whether a command line is of the laboratory: one of its commands, help about it, or the
// completion of its arguments.
func isLaboratory(args []string) bool {
	if len(args) > 1 && slices.Contains([]string{"help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0]) {
		// The last argument of a completion is what is being typed, perhaps the name of the command itself.
		if args[0] != "help" && len(args) == 2 {
			return false
		}
		args = args[1:]
	}
	return len(args) > 0 && laboratoryCommands[args[0]] != ""
}

// execLaboratory replaces this process with the laboratory's program, which so gets its signals and its terminal. It
// returns only on failure. args begin with the name that the program shows.
func execLaboratory(args []string) error {
	path, err := findLaboratory(os.Executable)
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, args, os.Environ()))
}

// findLaboratory returns the path of the laboratory's program: beside this one, links followed, or else on the PATH.
func findLaboratory(executable func() (string, error)) (string, error) {
	if own, err := executable(); err == nil {
		if target, err := filepath.EvalSymlinks(own); err == nil {
			own = target
		}
		if found, err := exec.LookPath(filepath.Join(filepath.Dir(own), laboratoryProgram)); err == nil {
			return found, nil
		}
	}
	found, err := exec.LookPath(laboratoryProgram)
	if err != nil {
		return "", fmt.Errorf("this command is part of %[1]s, which is neither beside supercargo nor on the PATH: "+
			"build it with `make bin/%[1]s`, or take it from the release", laboratoryProgram)
	}
	return found, nil
}
