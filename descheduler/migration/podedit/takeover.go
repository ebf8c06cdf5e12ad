package podedit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/movable"
)

// LowestDeletionCost is the value of [corev1.PodDeletionCost] for a pod that its ReplicaSet should delete before all
// others.
const LowestDeletionCost = "-2147483648"

// TakeOver returns the new pod as it is after it has taken over from the old one: with the withheld labels, the
// owner reference, and, if a Job owns it, the Job's tracking finalizer.
func TakeOver(restored *corev1.Pod, owner *metav1.OwnerReference) (*corev1.Pod, error) {
	p := restored.DeepCopy()
	var withheld map[string]string
	if text, ok := p.Annotations[AnnotationWithheldLabels]; ok {
		if err := json.Unmarshal([]byte(text), &withheld); err != nil {
			return nil, fmt.Errorf("read annotation %s of pod %s/%s: %w", AnnotationWithheldLabels, p.Namespace, p.Name, err)
		}
		delete(p.Annotations, AnnotationWithheldLabels)
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	maps.Copy(p.Labels, withheld)
	if owner != nil && !metav1.IsControlledBy(p, &metav1.ObjectMeta{UID: owner.UID}) {
		p.OwnerReferences = append(p.OwnerReferences, *owner.DeepCopy())
		// The API rejects new finalizers on an object that is being deleted.
		if owner.Kind == "Job" && p.DeletionTimestamp == nil && !slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
			p.Finalizers = append(p.Finalizers, batchv1.JobTrackingFinalizer)
		}
	}
	return p, nil
}

// HasTakenOver reports whether a new pod has taken over.
func HasTakenOver(restored *corev1.Pod) bool {
	_, waits := restored.Annotations[AnnotationWithheldLabels]
	return !waits
}

// Release returns the old pod as it is after its owner has released it. selector is the owner's; nil if the owner
// is gone.
func Release(source *corev1.Pod, owner *metav1.OwnerReference, selector *metav1.LabelSelector) *corev1.Pod {
	p := source.DeepCopy()
	if owner == nil {
		return p
	}
	for key := range movable.OwnerLabels(source, owner, selector) {
		delete(p.Labels, key)
	}
	p.OwnerReferences = slices.DeleteFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.UID })
	p.Finalizers = WithoutJobTracking(p).Finalizers
	return p
}

// WithoutJobTracking returns a pod without the tracking finalizer, so that its Job does not count how it ends. The Job still
// owns it.
func WithoutJobTracking(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	return p
}

// HasLowestDeletionCost reports whether a ReplicaSet with a surplus pod deletes this one before its other equally ready pods.
func HasLowestDeletionCost(pod *corev1.Pod) bool {
	return pod.Annotations[corev1.PodDeletionCost] == LowestDeletionCost
}

// WithLowestDeletionCost returns the pod with [LowestDeletionCost], so that its ReplicaSet deletes it before others.
func WithLowestDeletionCost(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[corev1.PodDeletionCost] = LowestDeletionCost
	return p
}
