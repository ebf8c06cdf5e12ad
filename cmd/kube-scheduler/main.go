// Command kube-scheduler is the stock Kubernetes scheduler with the plugins of Supercargo and of
// sigs.k8s.io/scheduler-plugins built in. Unless a configuration enables them, it behaves like the
// stock scheduler.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // REST client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"supercargo.dev/supercargo/plugins"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(plugins.Options()...)))
}
