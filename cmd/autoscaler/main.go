// Command autoscaler buys machines for unschedulable pods and gives back those
// that are no longer worth their price, as NodeFleets say, and gives services as many
// replicas as they need, as ReplicaPolicies say.
package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"supercargo.dev/supercargo/autoscaler/adapter/source"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/internal/platform/version"
)

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	var o app.Options
	var kubeconfig, machinesKubeconfig, sources string
	metrics := source.Config{Name: source.Default}
	cmd := &cobra.Command{
		Use:   "autoscaler",
		Short: "Keep NodeFleets, which buy the cheapest machines and give back those not worth their price, ReplicaPolicies, which give services the replicas they need, and WorkerPools, which give a Work Queue its workers",
		Example: `  # In the cluster, or with the kubeconfig that kubectl uses
  autoscaler

  # Where ReplicaPolicies get their measurements
  autoscaler --metrics-url https://prometheus.monitoring:9090 --metrics-ca-file /etc/metrics/ca.crt --metrics-token-file /etc/metrics/token

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
			if o.MetricSources, err = metricSources(metrics, sources); err != nil {
				return err
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
	flags.StringVar(&metrics.URL, "metrics-url", "", "`URL` of a server with Prometheus' HTTP API, which ReplicaPolicies ask as source \"default\"")
	flags.StringVar(&metrics.CAFile, "metrics-ca-file", "", "`file` with the certificates that its own is verified by (default: those of the system)")
	flags.StringVar(&metrics.TokenFile, "metrics-token-file", "", "`file` with the bearer token for it, read again for every query")
	flags.DurationVar(&metrics.Timeout.Duration, "metrics-timeout", prometheus.DefaultTimeout, "how long it may take to answer")
	flags.StringVar(&sources, "metrics-sources", "", "YAML `file` with further sources: a list \"sources\" of name, url, caFile, tokenFile, timeout and lookback")
	flags.StringSliceVar(&o.ScaleKinds, "scale-kinds", app.DefaultScaleKinds(), "what ReplicaPolicies may scale, as `resource.group`; the autoscaler needs the rights to")
	o.AddFlags(flags)
	return cmd
}

// metricSources is the source of the flags, if there is one, and those of the file.
func metricSources(flags source.Config, file string) (all []source.Config, err error) {
	if file != "" {
		if all, err = source.Read(file); err != nil {
			return nil, err
		}
	}
	if flags.URL != "" {
		all = append(all, flags)
	} else if flags.CAFile != "" || flags.TokenFile != "" {
		return nil, errors.New("--metrics-ca-file and --metrics-token-file are for a server that --metrics-url names")
	}
	return all, nil
}
