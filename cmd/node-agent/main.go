// Command node-agent carries out, on every node, what Migrations order: it freezes
// containers, takes their state, sends it to another node, makes it restorable there,
// and lets them go on or kills them.
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

	"supercargo.dev/supercargo/descheduler/agent/app"
	"supercargo.dev/supercargo/internal/version"
)

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	var o app.Options
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "node-agent",
		Short: "Move containers with their state from this node and to it, as Migrations order",
		Example: `  # On a node, as root, with containerd
  node-agent --node-name "$(hostname)" --kubeconfig /etc/supercargo/agent.kubeconfig

  # Play the agents of nodes that run no containers
  node-agent --simulate type=kwok --kubeconfig ~/.kube/config --state-dir /tmp/agent --work-dir /tmp/agent-work`,
		Version: version.Version,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var err error
			if o.Config, err = load(kubeconfig); err != nil {
				return err
			}
			o.Log = klog.Background()
			ctrl.SetLogger(o.Log)
			return app.Run(ctrl.SetupSignalHandler(), o)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: the cluster this runs in, else $KUBECONFIG or ~/.kube/config)")
	o.AddFlags(cmd.Flags())
	return cmd
}

// load reads a kubeconfig; without a file it looks where kubectl and pods do.
func load(file string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	if file == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	return config, nil
}
