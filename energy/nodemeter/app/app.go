package app

import (
	"context"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/energy/nodemeter"
	"supercargo.dev/supercargo/internal/platform/operator"
)

// NewCommand returns the command of the meter. It is part of the node agent's program, because
// both are on each node, but runs in a container of its own.
func NewCommand() *cobra.Command {
	var o Options
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "meter",
		Short: "Measure the power of this node, and serve it to clients that the API server authorizes",
		Example: `  # On a node, as a user who may read its meters
  node-agent meter --node-name "$(hostname)" --kubeconfig /etc/supercargo/meter.kubeconfig

  # Prometheus has the power of the node from a power distribution unit
  node-agent meter --node-name "$(hostname)" --prometheus https://prometheus.example:9090 --prometheus-token /etc/supercargo/token \
    --power-meter query --power-query 'sum(pdu_outlet_watts{host="$node"})'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return operator.Main(kubeconfig, &o.Config, &o.Log, func(ctx context.Context) error { return Run(ctx, o) })
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: the cluster this runs in, else $KUBECONFIG or ~/.kube/config)")
	o.AddFlags(cmd.Flags())
	return cmd
}

// Run runs the meter until ctx ends, or until an error that a restart may fix.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	m, hangUp, err := o.meter()
	if err != nil {
		return err
	}
	defer hangUp()
	return nodemeter.Run(ctx, nodemeter.Config{
		Client: o.Config, Node: o.NodeName, Namespace: o.Namespace, Meter: m, ServeAddress: o.ServeAddress, Log: o.Log,
	})
}
