// Command autoscaler runs the controllers of NodeFleets, which buy machines for unschedulable pods
// and release machines that are not worth their price, of ReplicaPolicies, which set the replicas
// of services, and of WorkerPools, which set the number of Work Queue workers.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/internal/platform/promql/source"
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
		Short: "Run the controllers of NodeFleets (the machines of a cluster), ReplicaPolicies (the replicas of services) and WorkerPools (the workers of Work Queue)",
		Example: `  # Run in a cluster, or with the kubeconfig of kubectl
  autoscaler

  # Read the measurements of ReplicaPolicies from a Prometheus server
  autoscaler --metrics-url https://prometheus.monitoring:9090 --metrics-ca-file /etc/metrics/ca.crt --metrics-token-file /etc/metrics/token

  # Log what the controllers would do, and write nothing
  autoscaler --dry-run --kubeconfig ~/.kube/config`,
		Version: version.Version,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return operator.Main(kubeconfig, &o.Config, &o.Log, func(ctx context.Context) (err error) {
				if machinesKubeconfig != "" {
					if o.ClusterAPIConfig, err = operator.Load(machinesKubeconfig); err != nil {
						return err
					}
				}
				if o.MetricSources, err = metricSources(metrics, sources); err != nil {
					return err
				}
				return app.Run(ctx, o)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster whose pods to provide for (default: the cluster that this runs in, else $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&machinesKubeconfig, "cluster-api-kubeconfig", "", "kubeconfig `file` of the cluster with the MachineDeployments (default: the same cluster)")
	flags.BoolVar(&o.DryRun, "dry-run", false, "log what the controllers would do, and write nothing (mode Observe of a NodeFleet reports it in its status instead)")
	flags.StringVar(&metrics.URL, "metrics-url", "", "`URL` of a server with the Prometheus HTTP API, the source \"default\" of ReplicaPolicies")
	flags.StringVar(&metrics.CAFile, "metrics-ca-file", "", "PEM `file` with the server's certificate authorities (default: those of the system)")
	flags.StringVar(&metrics.TokenFile, "metrics-token-file", "", "`file` with a bearer token for the server, read again for every query")
	flags.StringVar(&metrics.HTTPConfigFile, "metrics-http-config-file", "",
		"YAML `file` with Prometheus' own http_config for the server, such as basic_auth, tls_config or http_headers, in place of the two options before")
	flags.DurationVar(&metrics.Timeout.Duration, "metrics-timeout", prometheus.DefaultTimeout, "timeout of a query")
	flags.StringVar(&sources, "metrics-sources", "", "YAML `file` with further sources: a list \"sources\" of name, url, caFile, tokenFile, httpConfigFile, timeout and lookback")
	flags.StringSliceVar(&o.ScaleKinds, "scale-kinds", app.DefaultScaleKinds(), "kinds that ReplicaPolicies can scale, as `resource.group`; the autoscaler needs permission to scale them")
	o.AddFlags(flags)
	o.AddActions(flags, app.Actions())
	return cmd
}

// metricSources returns the source of the flags, if any, and those of the file.
func metricSources(flags source.Config, file string) (all []source.Config, err error) {
	if file != "" {
		if all, err = source.Read(file); err != nil {
			return nil, err
		}
	}
	if flags.URL != "" {
		all = append(all, flags)
	} else if flags.CAFile != "" || flags.TokenFile != "" || flags.HTTPConfigFile != "" {
		return nil, errors.New("--metrics-ca-file, --metrics-token-file and --metrics-http-config-file require --metrics-url")
	}
	return all, nil
}
