//go:build !kubernetes1.37

package packingsort

import (
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// waiting is an entry of the scheduler's queue: a pod.
type waiting = fwk.QueuedPodInfo

func priorityOf(q waiting) int32 { return corev1helpers.PodPriority(q.GetPodInfo().GetPod()) }

func nameOf(q waiting) name {
	pod := q.GetPodInfo().GetPod()
	return name{pod.Namespace, pod.Name}
}

func (p *Plugin) keyOf(q waiting) key { return p.keyOfPod(q.GetPodInfo(), q) }
