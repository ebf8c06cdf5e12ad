//go:build kubernetes1.36

package plugins

import "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

// preempting returns nothing: CapacityScheduling and PreemptionToleration of
// scheduler-plugins v0.35 do not compile with the preemption of Kubernetes 1.36.
func preempting() runtime.Registry { return nil }
