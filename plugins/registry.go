// Package plugins is the list of scheduler plugins that the Supercargo kube-scheduler adds to the stock ones.
package plugins

import (
	"maps"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/networkoverhead"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesources"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
	"sigs.k8s.io/scheduler-plugins/pkg/sysched"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/peaks"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"

	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // registers the argument kinds of the plugins above

	"supercargo.dev/supercargo/plugins/bestfit"
	"supercargo.dev/supercargo/plugins/checkpointstaging"
	"supercargo.dev/supercargo/plugins/energyperformance"
	"supercargo.dev/supercargo/plugins/nodeclass"
	"supercargo.dev/supercargo/plugins/packingsort"
	"supercargo.dev/supercargo/plugins/timebin"
)

// Registry returns every out-of-tree plugin by name: Supercargo's own and those of sigs.k8s.io/scheduler-plugins.
// Supercargo's own read the time from clk, except CheckpointStaging: it waits for other components, which act in real
// time. The caller owns the map.
//
// Plugins of scheduler-plugins are missing if they do not support the framework of the Kubernetes version of this
// build: CrossNodePreemption, whose source is commented out upstream, those of preempting from 1.36 on, those of
// sorting from 1.37 on, and that of nominating from 1.38 on.
func Registry(clk clock.PassiveClock) runtime.Registry {
	registry := runtime.Registry{
		bestfit.Name:           bestfit.New(clk),
		checkpointstaging.Name: checkpointstaging.New(clock.RealClock{}),
		energyperformance.Name: energyperformance.New(clk, nil),
		nodeclass.Name:         nodeclass.New,
		packingsort.Name:       packingsort.New,
		timebin.Name:           timebin.New(clk),

		loadvariationriskbalancing.Name: loadvariationriskbalancing.New,
		lowriskovercommitment.Name:      lowriskovercommitment.New,
		networkoverhead.Name:            networkoverhead.New,
		noderesources.AllocatableName:   noderesources.NewAllocatable,
		noderesourcetopology.Name:       noderesourcetopology.New,
		peaks.Name:                      peaks.New,
		sysched.Name:                    sysched.New,
		targetloadpacking.Name:          targetloadpacking.New,
	}
	maps.Copy(registry, preempting())
	maps.Copy(registry, sorting())
	maps.Copy(registry, nominating())
	return registry
}

// Options converts [Registry] into the options that kube-scheduler's command and Setup take.
func Options() []app.Option {
	registry := Registry(clock.RealClock{})
	options := make([]app.Option, 0, len(registry))
	for name, factory := range registry {
		options = append(options, app.WithPlugin(name, factory))
	}
	return options
}
