//go:build !kubernetes1.36

package plugins

import (
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/preemptiontoleration"
)

// preempting returns the plugins of scheduler-plugins that preempt.
func preempting() runtime.Registry {
	return runtime.Registry{
		capacityscheduling.Name:   capacityscheduling.New,
		preemptiontoleration.Name: preemptiontoleration.New,
	}
}
