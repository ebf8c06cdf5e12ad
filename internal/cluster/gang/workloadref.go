//go:build !kubernetes1.36

package gang

import corev1 "k8s.io/api/core/v1"

// Of returns the name of the gang that the pod is in, and "" if it is in none.
func Of(pod *corev1.Pod) string {
	if ref := pod.Spec.WorkloadRef; ref != nil {
		return ref.Name
	}
	return ""
}
