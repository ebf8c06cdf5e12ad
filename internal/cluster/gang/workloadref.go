//go:build !kubernetes1.36

package gang

import corev1 "k8s.io/api/core/v1"

// Of returns the name of the pod's gang, or "" if it has none.
func Of(pod *corev1.Pod) string {
	if ref := pod.Spec.WorkloadRef; ref != nil {
		return ref.Name
	}
	return ""
}
