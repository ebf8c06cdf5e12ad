// Command descheduler moves running pods between nodes, as Migrations specify. Its command
// evictions, which runs under a ServiceAccount of its own, serves the webhook that turns evictions
// into Migrations.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/version"
)

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	o := app.Defaults()
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "descheduler",
		Short: "Run the controllers of Migrations, consolidation and machine profiles",
		Example: `  # Run in a cluster, or with the kubeconfig of kubectl
  descheduler

  # Log what the controllers would do, and write nothing
  descheduler --dry-run --kubeconfig ~/.kube/config`,
		Version: version.Version,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return operator.Main(kubeconfig, &o.Config, &o.Log, func(ctx context.Context) error { return app.Run(ctx, o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default: the cluster this runs in, else $KUBECONFIG or ~/.kube/config)")
	flags.BoolVar(&o.DryRun, "dry-run", false, "only log what would be done, and write nothing")
	o.AddFlags(flags)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(app.NewEvictionsCommand())
	return cmd
}
