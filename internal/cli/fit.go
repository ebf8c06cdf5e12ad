package cli

import "github.com/spf13/cobra"

func newFitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fit",
		Short: "Fit models to what was measured",
		Example: `  # What does a machine draw by its utilisation?
  supercargo fit power -f series.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newFitPowerCommand())
	return cmd
}
