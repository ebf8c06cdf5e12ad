//go:build kubernetes1.36

package gang

import corev1 "k8s.io/api/core/v1"

// Of returns the name of the pod's gang, or "" if it has none.
func Of(pod *corev1.Pod) string {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return *group.PodGroupName
	}
	return ""
}
