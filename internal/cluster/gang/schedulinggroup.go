//go:build kubernetes1.36

package gang

import corev1 "k8s.io/api/core/v1"

// Of returns the name of the gang that the pod is in, and "" if it is in none.
func Of(pod *corev1.Pod) string {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return *group.PodGroupName
	}
	return ""
}
