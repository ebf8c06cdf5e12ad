//go:build !kubernetes1.38

package plugins

import (
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/pkg/podstate"
)

// nominating returns the plugin of scheduler-plugins that counts the pods nominated to a node.
func nominating() runtime.Registry {
	return runtime.Registry{podstate.Name: podstate.New}
}
