//go:build !kubernetes1.36

package plugins

import (
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/preemptiontoleration"
)

// preempting returns the preemption plugins of scheduler-plugins.
func preempting() runtime.Registry {
	return runtime.Registry{
		capacityscheduling.Name:   capacityscheduling.New,
		preemptiontoleration.Name: preemptiontoleration.New,
	}
}
