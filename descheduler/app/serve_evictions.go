package app

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/operator"
)

// NewEvictionsCommand returns the command that only serves the webhook. The API server calls it,
// and so may anyone who finds its port. Its account therefore needs no permission to create or
// delete pods, to change nodes, or to write the orders of Migrations.
func NewEvictionsCommand() *cobra.Command {
	o := EvictionDefaults()
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "evictions",
		Short: "Serve the webhook that turns evictions of pods into Migrations",
		Example: `  # In the cluster, or with the kubeconfig that kubectl uses
  descheduler evictions`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := o.Evictions.validate(); err != nil {
				return err
			}
			return operator.Main(kubeconfig, &o.Config, &o.Log, func(ctx context.Context) error { return RunEvictions(ctx, o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default: the cluster this runs in, else $KUBECONFIG or ~/.kube/config)")
	o.AddEvictionFlags(flags)
	return cmd
}

// AddEvictionFlags adds the flags of the webhook's command. The current values are their
// defaults.
func (o *Options) AddEvictionFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "`host:port` for /metrics; 0 serves none")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "`host:port` for /healthz and /readyz; 0 serves none")
	o.Evictions.addFlags(flags)
}

// EvictionDefaults returns the defaults of the flags of the webhook's command.
func EvictionDefaults() Options {
	o := Defaults()
	o.Evictions.Address = ":9443"
	return o
}

// RunEvictions serves the webhook until ctx ends, or until an error that a restart may fix. It
// uses the general options and Evictions.
func RunEvictions(ctx context.Context, o Options) error {
	if err := o.Evictions.validate(); err != nil {
		return err
	}
	const name = "evictions"
	o.LeaderElection = false // every replica serves
	m, err := operator.NewManager(name, o.Options, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)
	if err != nil {
		return err
	}
	if err := o.Evictions.addTo(m); err != nil {
		return err
	}
	return operator.Run(ctx, name, m)
}
