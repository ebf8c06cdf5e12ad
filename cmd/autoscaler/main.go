// Command autoscaler buys machines for pods that find no room and gives back those
// that are no longer worth their price, as NodeFleets say.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/internal/operator"
	"supercargo.dev/supercargo/internal/version"
)

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	var o app.Options
	var kubeconfig, machinesKubeconfig string
	cmd := &cobra.Command{
		Use:   "autoscaler",
		Short: "Keep NodeFleets: buy the cheapest machines for pods that find no room, and give back those not worth their price",
		Example: `  # In the cluster, or with the kubeconfig that kubectl uses
  autoscaler

  # Log what it would do, and write nothing
  autoscaler --dry-run --kubeconfig ~/.kube/config`,
		Version: version.Version,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var err error
			if o.Config, err = operator.Load(kubeconfig); err != nil {
				return err
			}
			if machinesKubeconfig != "" {
				if o.ClusterAPIConfig, err = operator.Load(machinesKubeconfig); err != nil {
					return err
				}
			}
			o.Log = klog.Background()
			ctrl.SetLogger(o.Log)
			return app.Run(ctrl.SetupSignalHandler(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster whose pods are looked after (default: the cluster this runs in, else $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&machinesKubeconfig, "cluster-api-kubeconfig", "", "kubeconfig `file` of the cluster that has the MachineDeployments (default: the same cluster)")
	flags.BoolVar(&o.DryRun, "dry-run", false, "only log what would be done, and write nothing (mode Observe of a fleet shows it in its status)")
	o.AddFlags(flags)
	return cmd
}
