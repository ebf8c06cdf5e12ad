// Command metrics-adapter measures what services are scaled by, and serves it to autoscalers
// through the custom and the external metrics API.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	"supercargo.dev/supercargo/autoscaler/adapter/app"
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
		Use:   "metrics-adapter",
		Short: "Scrape and store metrics, and serve them through the custom and external metrics APIs",
		Example: `  # Run in a cluster
  metrics-adapter --config=/etc/supercargo/metrics.yaml

  # Run beside KEDA, which serves external.metrics.k8s.io
  metrics-adapter --external-metrics=false`,
		Version: version.Version,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return operator.Main(kubeconfig, &o.Config, &o.Log, func(ctx context.Context) error {
				o.UseKubeconfig(kubeconfig)
				return app.Run(ctx, o)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default: the cluster this runs in, else $KUBECONFIG or ~/.kube/config)")
	o.AddFlags(flags)
	return cmd
}
