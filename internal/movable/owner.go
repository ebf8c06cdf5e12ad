package movable

import (
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// LowestDeletionCost is the value of [corev1.PodDeletionCost] for a pod that its ReplicaSet should delete before all
// others.
const LowestDeletionCost = "-2147483648"

// checkOwner refuses pods whose owner would not accept a replacement pod.
func (v *Verdict) checkOwner(in Input) {
	pod := in.Pod
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		v.refuse("StaticPod", "the pod is a static pod of its kubelet: move its manifest to the other node")
		return
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		if len(pod.OwnerReferences) > 0 {
			v.refuse("Owner", "the pod belongs to %s %s, which would not adopt the new pod: only bare pods and pods of Jobs and ReplicaSets can be moved",
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
		v.refuse("Owner", "the pod belongs to StatefulSet %s, whose pods keep their names, and two pods cannot have the same name: delete the pod to restart it on another node", owner.Name)
	case "DaemonSet", "Node":
		v.refuse("Owner", "the pod of %s %s belongs to its node", owner.Kind, owner.Name)
	default:
		v.refuse("Owner", "the pod belongs to %s %s, which would create a replacement itself: only bare pods and pods of Jobs and ReplicaSets can be moved", owner.Kind, owner.Name)
	}
}

// checkJob refuses Jobs that would count the old pod as failed, or start another pod before it is dead.
func (v *Verdict) checkJob(job *batchv1.Job, owner *metav1.OwnerReference) {
	if job == nil || job.UID != owner.UID {
		v.refuse("Owner", "Job %s of the pod is gone", owner.Name)
		return
	}
	if job.DeletionTimestamp != nil {
		v.refuse("Deleting", "Job %s of the pod is being deleted", job.Name)
	}
	if by := job.Spec.ManagedBy; by != nil && *by != batchv1.JobControllerName {
		v.refuse("Owner", "Job %s is managed by %s, whose handling of replaced pods is unknown: use the Job controller", job.Name, *by)
	}
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		v.refuse("JobSuspended", "Job %s is suspended, so its pods will be deleted", job.Name)
	}
	if policy := job.Spec.PodReplacementPolicy; policy == nil || *policy != batchv1.Failed {
		v.refuse("PodReplacementPolicy", "Job %s replaces pods as soon as they are being deleted, and counts them as failed: "+
			"set podReplacementPolicy: Failed (or a podFailurePolicy, which implies it) when you create the Job", job.Name)
	}
}

// checkReplicaSet refuses ReplicaSets that would not tolerate a new pod beside the old one, or that are scaled to zero.
func (v *Verdict) checkReplicaSet(in Input, owner *metav1.OwnerReference) {
	set := in.ReplicaSet
	if set == nil || set.UID != owner.UID {
		v.refuse("Owner", "ReplicaSet %s of the pod is gone", owner.Name)
		return
	}
	if set.DeletionTimestamp != nil {
		v.refuse("Deleting", "ReplicaSet %s of the pod is being deleted", set.Name)
	}
	if set.Spec.Replicas != nil && *set.Spec.Replicas == 0 {
		v.refuse("ScaledDown", "ReplicaSet %s is scaled to 0, so its pods will be deleted", set.Name)
	}
	if in.Method == v1alpha1.MethodRestart {
		// It would delete the pending new pod before the running old one.
		v.refuse("ReplacedOnEviction", "ReplicaSet %s creates a replacement when the pod is deleted: evict the pod instead", set.Name)
	}
	if !separable(in.Pod, set) {
		v.refuse("Selector", "ReplicaSet %s would adopt the new pod too early: its selector matches pods without the labels that it names", set.Name)
	}
}

// separable reports whether a pod of a ReplicaSet without the labels of its place is outside the ReplicaSet's selector.
func separable(pod *corev1.Pod, set *appsv1.ReplicaSet) bool {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return false
	}
	without := labels.Set{}
	for key, value := range pod.Labels {
		without[key] = value
	}
	for key := range LabelsOfPlace(pod, set.Spec.Selector) {
		delete(without, key)
	}
	return !selector.Matches(without)
}

// labelsOfOwner returns the labels of a pod by which its owner selects it. selector is the owner's; nil if the owner is
// gone.
func labelsOfOwner(pod *corev1.Pod, owner *metav1.OwnerReference, selector *metav1.LabelSelector) map[string]string {
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

// OfReplicaSet reports whether an owner is a ReplicaSet.
func OfReplicaSet(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == "ReplicaSet"
}

// GoesFirst reports whether a ReplicaSet with a surplus pod deletes this one before its other equally ready pods.
func GoesFirst(pod *corev1.Pod) bool {
	return pod.Annotations[corev1.PodDeletionCost] == LowestDeletionCost
}

// ToGoFirst returns the pod with [LowestDeletionCost], so that its ReplicaSet deletes it before others.
func ToGoFirst(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[corev1.PodDeletionCost] = LowestDeletionCost
	return p
}

// ownCost returns the deletion cost of a new pod whose source has one: the same, but always above [LowestDeletionCost],
// which the source gets when it is to be deleted.
func ownCost(cost string) string {
	if cost == LowestDeletionCost {
		return strconv.Itoa(math.MinInt32 + 1)
	}
	return cost
}
