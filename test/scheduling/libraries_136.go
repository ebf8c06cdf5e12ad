//go:build kubernetes1.36

package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Enqueue puts a pod into the scheduling queue.
func (s *Scheduler) Enqueue(pod *corev1.Pod) { s.SchedulingQueue.Add(s.ctx, pod) }

// Sign returns the signature of a pod by its profile, or nil. Pods with equal signatures may share the
// outcome of one scheduling attempt.
func (s *Scheduler) Sign(pod *corev1.Pod) fwk.PodSignature {
	return s.Profiles[pod.Spec.SchedulerName].SignPod(s.ctx, pod)
}
