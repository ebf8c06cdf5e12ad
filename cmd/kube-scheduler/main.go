// Command kube-scheduler is the stock Kubernetes scheduler with the plugins of Supercargo and of
// sigs.k8s.io/scheduler-plugins built in. Unless a configuration enables them, it behaves like the
// stock scheduler, with one exception: it exits when it did not run for as long as a Lease is valid by
// default, so that the kubelet restarts it. Its leader election would let it act for ten more seconds
// beside the new leader.
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
	checkEvery    = 100 * time.Millisecond
)

func main() {
	go stall.Watch(context.Background(), clock.RealClock{}, checkEvery, leaseDuration, func(gap time.Duration) {
		klog.ErrorS(nil, "Exiting for a restart: this process did not run for longer than a Lease is valid, so another replica may lead", "gap", gap)
		klog.Flush()
		os.Exit(1)
	})
	os.Exit(cli.Run(app.NewSchedulerCommand(plugins.Options()...)))
}
