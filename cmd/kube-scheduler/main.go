// Command kube-scheduler is the stock Kubernetes scheduler with the plugins of Supercargo and of
// sigs.k8s.io/scheduler-plugins built in. Unless a configuration enables them, it behaves like the
// stock scheduler, with one exception: after it did not run for as long as a Lease lasts by default,
// it ends, to be started again. Its leader election would let it act for ten more seconds beside the
// new leader.
package main

import (
	"context"
	"os"
	"time"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // REST client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info metric
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/platform/stall"
	"supercargo.dev/supercargo/plugins"
)

const (
	leaseDuration = 15 * time.Second // the default of kube-scheduler
	lookEvery     = 100 * time.Millisecond
)

func main() {
	go stall.Watch(context.Background(), clock.RealClock{}, lookEvery, leaseDuration, func(gap time.Duration) {
		klog.ErrorS(nil, "This process did not run for longer than a Lease lasts, so another replica may lead: it ends, to be started again", "gap", gap)
		klog.Flush()
		os.Exit(1)
	})
	os.Exit(cli.Run(app.NewSchedulerCommand(plugins.Options()...)))
}
