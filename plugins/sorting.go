//go:build !kubernetes1.37

package plugins

import (
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/topologicalsort"
	"sigs.k8s.io/scheduler-plugins/pkg/qos"
)

// sorting returns the QueueSort plugins of scheduler-plugins.
func sorting() runtime.Registry {
	return runtime.Registry{
		coscheduling.Name:    coscheduling.New,
		qos.Name:             qos.New,
		topologicalsort.Name: topologicalsort.New,
	}
}
