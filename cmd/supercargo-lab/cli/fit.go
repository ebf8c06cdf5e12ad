package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
)

func newFitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fit",
		Short: "Fit models to measurements",
		Example: `  # What does a machine draw by its utilisation?
  supercargo fit power -f series.csv

  # How many requests does a replica of a service serve?
  supercargo fit service -f service.csv`,
		Args: command.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newFitPowerCommand(), newFitServiceCommand())
	return cmd
}

// readMeasured reads the file of -f; - is stdin. Errors contain its name.
func readMeasured(file string, stdin io.Reader, read func(io.Reader) error) error {
	named := func(in io.Reader) error {
		if err := read(in); err != nil {
			return fmt.Errorf("-f %s: %w", file, err)
		}
		return nil
	}
	if file == "-" {
		return named(stdin)
	}
	return command.ReadNamed("-f", file, named)
}
