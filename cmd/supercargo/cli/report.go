package cli

import (
	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
)

func newReportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report a cluster's nodes, power and energy",
		Example: `  # Energy of the last day, by namespace, workload and machine type
  supercargo report energy --prometheus http://prometheus.monitoring:9090

  # What do nodes draw now, and by which meters?
  supercargo report power --prometheus http://prometheus.monitoring:9090

  # What nodes were there in the last day, and what is available on them?
  supercargo report nodes --prometheus http://localhost:9090`,
		Args: command.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newReportEnergyCommand(), newReportNodesCommand(), newReportPowerCommand())
	return cmd
}
