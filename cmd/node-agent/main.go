// Command node-agent performs the steps of Migrations on each node: it freezes containers, dumps
// their state, sends it to another node, makes it restorable there, and resumes or kills the
// containers. Its command meter, which runs in a container of its own, measures the power of the
// node.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	"supercargo.dev/supercargo/descheduler/agent/app"
	meterapp "supercargo.dev/supercargo/energy/nodemeter/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/version"
)

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	var o app.Options
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "node-agent",
		Short: "Checkpoint and restore the containers of a node for Migrations",
		Example: `  # Run on a node with containerd, as root
  node-agent --node-name "$(hostname)" --kubeconfig /etc/supercargo/agent.kubeconfig

  # Simulate the agents of nodes that run no containers
  node-agent --simulate type=kwok --kubeconfig ~/.kube/config --state-dir /tmp/agent --work-dir /tmp/agent-work`,
		Version: version.Version,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return operator.Main(kubeconfig, &o.Config, &o.Log, func(ctx context.Context) error { return app.Run(ctx, o) })
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: the cluster this runs in, else $KUBECONFIG or ~/.kube/config)")
	o.AddFlags(cmd.Flags())
	cmd.AddCommand(app.NewProbeCommand(), meterapp.NewCommand())
	return cmd
}
