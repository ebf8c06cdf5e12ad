package movable

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// checkOwner refuses pods whose owner would not accept a replacement pod.
func (v *Verdict) checkOwner(in Input) {
	pod := in.Pod
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		v.refuse(v1alpha1.MigrationReasonStaticPodUnsupported, "the pod is a static pod of its kubelet: move its manifest to the other node")
		return
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		if len(pod.OwnerReferences) > 0 {
			v.refuse(v1alpha1.MigrationReasonOwnerUnsupported, "the pod belongs to %s %s, which would not adopt the new pod: only bare pods and pods of Jobs and ReplicaSets can be moved",
				pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name)
		}
		return
	}
	switch owner.Kind {
	case "Job":
		v.checkJob(in.Job, owner)
	case "ReplicaSet":
		v.checkReplicaSet(in, owner)
	case "StatefulSet":
		v.refuse(v1alpha1.MigrationReasonOwnerUnsupported, "the pod belongs to StatefulSet %s, whose pods keep their names, and two pods cannot have the same name: delete the pod to restart it on another node", owner.Name)
	case "DaemonSet", "Node":
		v.refuse(v1alpha1.MigrationReasonOwnerUnsupported, "the pod of %s %s belongs to its node", owner.Kind, owner.Name)
	default:
		v.refuse(v1alpha1.MigrationReasonOwnerUnsupported, "the pod belongs to %s %s, which would create a replacement itself: only bare pods and pods of Jobs and ReplicaSets can be moved", owner.Kind, owner.Name)
	}
}

// checkJob refuses Jobs that would count the old pod as failed, or start another pod before it is dead.
func (v *Verdict) checkJob(job *batchv1.Job, owner *metav1.OwnerReference) {
	if job == nil || job.UID != owner.UID {
		v.refuse(v1alpha1.MigrationReasonOwnerUnsupported, "Job %s of the pod is gone", owner.Name)
		return
	}
	if job.DeletionTimestamp != nil {
		v.refuse(v1alpha1.MigrationReasonDeleting, "Job %s of the pod is being deleted", job.Name)
	}
	if by := job.Spec.ManagedBy; by != nil && *by != batchv1.JobControllerName {
		v.refuse(v1alpha1.MigrationReasonOwnerUnsupported, "Job %s is managed by %s, whose handling of replaced pods is unknown: use the Job controller", job.Name, *by)
	}
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		v.refuse(v1alpha1.MigrationReasonJobSuspended, "Job %s is suspended, so its pods will be deleted", job.Name)
	}
	if policy := job.Spec.PodReplacementPolicy; policy == nil || *policy != batchv1.Failed {
		v.refuse(v1alpha1.MigrationReasonPodReplacementPolicyUnsupported, "Job %s replaces pods as soon as they are being deleted, and counts them as failed: "+
			"set podReplacementPolicy: Failed (or a podFailurePolicy, which implies it) when you create the Job", job.Name)
	}
}

// checkReplicaSet refuses ReplicaSets that would not tolerate a new pod beside the old one, or that are scaled to zero.
func (v *Verdict) checkReplicaSet(in Input, owner *metav1.OwnerReference) {
	set := in.ReplicaSet
	if set == nil || set.UID != owner.UID {
		v.refuse(v1alpha1.MigrationReasonOwnerUnsupported, "ReplicaSet %s of the pod is gone", owner.Name)
		return
	}
	if set.DeletionTimestamp != nil {
		v.refuse(v1alpha1.MigrationReasonDeleting, "ReplicaSet %s of the pod is being deleted", set.Name)
	}
	if set.Spec.Replicas != nil && *set.Spec.Replicas == 0 {
		v.refuse(v1alpha1.MigrationReasonScaledDown, "ReplicaSet %s is scaled to 0, so its pods will be deleted", set.Name)
	}
	if !separable(in.Pod, set) {
		v.refuse(v1alpha1.MigrationReasonSelectorUnsupported, "ReplicaSet %s would adopt the new pod too early: its selector matches pods without the labels that it names", set.Name)
	}
}

// separable reports whether a pod of a ReplicaSet without the withheld labels is outside the ReplicaSet's selector.
func separable(pod *corev1.Pod, set *appsv1.ReplicaSet) bool {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return false
	}
	without := labels.Set{}
	for key, value := range pod.Labels {
		without[key] = value
	}
	for key := range WithheldLabels(pod, set.Spec.Selector) {
		delete(without, key)
	}
	return !selector.Matches(without)
}

// OwnerLabels returns the labels of a pod by which its owner selects it. selector is the owner's; nil if the owner is
// gone.
func OwnerLabels(pod *corev1.Pod, owner *metav1.OwnerReference, selector *metav1.LabelSelector) map[string]string {
	var keys []string
	switch owner.Kind {
	case "Job":
		keys = []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, batchv1.JobCompletionIndexAnnotation, "controller-uid", "job-name"}
	case "ReplicaSet":
		keys = []string{appsv1.DefaultDeploymentUniqueLabelKey}
	}
	if selector != nil {
		for key := range selector.MatchLabels {
			keys = append(keys, key)
		}
		for _, e := range selector.MatchExpressions {
			keys = append(keys, e.Key)
		}
	}
	found := map[string]string{}
	for _, key := range keys {
		if value, ok := pod.Labels[key]; ok {
			found[key] = value
		}
	}
	return found
}

// WithheldLabels returns the labels that the pod that replaces this one gets only when it takes over: those by which
// the owner selects the pod or, for a bare pod, all except Supercargo's. selector is the owner's.
func WithheldLabels(pod *corev1.Pod, selector *metav1.LabelSelector) map[string]string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return OwnerLabels(pod, owner, selector)
	}
	found := map[string]string{}
	for key, value := range pod.Labels {
		if !strings.HasPrefix(key, v1alpha1.GroupName+"/") {
			found[key] = value
		}
	}
	return found
}
