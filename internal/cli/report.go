package cli

import "github.com/spf13/cobra"

func newReportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report what a cluster used, and who used it",
		Example: `  # Energy of the last day, by namespace, workload and machine type
  supercargo report energy --prometheus http://prometheus.monitoring:9090

  # What do nodes draw now, and by which meters?
  supercargo report power --prometheus http://prometheus.monitoring:9090`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newReportEnergyCommand(), newReportPowerCommand())
	return cmd
}
