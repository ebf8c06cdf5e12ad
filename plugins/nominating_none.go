//go:build kubernetes1.38

package plugins

import "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

// nominating returns nothing: PodState of scheduler-plugins v0.35 asks for nominated pods as up to Kubernetes 1.37.
func nominating() runtime.Registry { return nil }
