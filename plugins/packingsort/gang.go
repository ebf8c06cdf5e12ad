//go:build kubernetes1.37

package packingsort

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// waiting is an entry of the scheduler's queue: a pod, or all pods of a gang that have no node yet, as one entry.
type waiting = fwk.QueuedEntityInfo

func priorityOf(q waiting) int32 { return q.GetPriority() }

func nameOf(q waiting) name {
	entity := q.(framework.QueuedEntityInfo)
	return name{entity.GetNamespace(), entity.GetName()}
}

// keyOf returns the key of the pod, or the least key of the gang's pods: a gang counts as large and as old as its pod
// that would come first. Cost: O(pods of the gang).
func (p *Plugin) keyOf(q waiting) key {
	var least key
	first := true
	for pod := range podsOf(q.(framework.QueuedEntityInfo)) {
		if k := p.keyOfPod(pod.GetPodInfo(), q); first || k.compare(least) < 0 {
			least, first = k, false
		}
	}
	return least
}
