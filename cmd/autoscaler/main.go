// Command autoscaler buys machines for pods that find no room and gives back those
// that are no longer worth their price, as NodeFleets say.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"supercargo.dev/supercargo/autoscaler/app"
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
			if o.Config, err = load(kubeconfig); err != nil {
				return err
			}
			if machinesKubeconfig != "" {
				if o.ClusterAPIConfig, err = load(machinesKubeconfig); err != nil {
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
	flags.BoolVar(&o.LeaderElection, "leader-elect", true, "let several run, of which one acts")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-elect-namespace", "", "`namespace` of the Lease (default: the one this runs in)")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "`host:port` for /metrics; 0 serves none")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "`host:port` for /healthz and /readyz; 0 serves none")
	return cmd
}

// load reads a kubeconfig; without a file it looks where kubectl and pods do.
func load(file string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	if file == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return app.Throttle(config), nil
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	return app.Throttle(config), nil
}
