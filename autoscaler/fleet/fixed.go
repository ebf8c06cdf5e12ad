package fleet

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// The annotations by which pods say to other autoscalers whether they may be
// evicted.
const (
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// fixed reports whether a pod must stay where it is. Eviction kills it, so only a
// pod that says it may be started again elsewhere is moved that way, and none that
// nobody would start again.
func (o *observer) fixed(pod *corev1.Pod) bool {
	return !evictable(pod) || budgetSpent(pod, o.world.budgets)
}

// evictable reports whether the pod itself allows to be evicted.
func evictable(pod *corev1.Pod) bool {
	if metav1.GetControllerOfNoCopy(pod) == nil {
		return false
	}
	if pod.Annotations[annotationSafeToEvict] == "false" || pod.Annotations[annotationDoNotDisrupt] == "true" {
		return false
	}
	return pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationRestart || pod.Annotations[annotationSafeToEvict] == "true"
}

// budgetSpent reports whether a PodDisruptionBudget forbids to evict the pod now.
func budgetSpent(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) bool {
	for i := range budgets {
		b := &budgets[i]
		if b.Namespace != pod.Namespace || b.Status.DisruptionsAllowed > 0 {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || selector.Matches(labels.Set(pod.Labels)) {
			return true // one that cannot be read may be about it
		}
	}
	return false
}
