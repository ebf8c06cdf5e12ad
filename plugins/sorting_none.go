//go:build kubernetes1.37

package plugins

import "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

// sorting returns nothing: Coscheduling, QOSSort and TopologicalSort of scheduler-plugins v0.35 order pods, but the
// queue of Kubernetes 1.37 has gangs too.
func sorting() runtime.Registry { return nil }
