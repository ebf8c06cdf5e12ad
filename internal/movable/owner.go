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
		v.refuse("StaticPod", "the pod is a static one that its kubelet keeps: move its manifest to the other node")
		return
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		if len(pod.OwnerReferences) > 0 {
			v.refuse("Owner", "the pod belongs to %s %s, which would not know the new one: only bare pods and those of Jobs and ReplicaSets are moved",
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
		v.refuse("Owner", "the pod belongs to StatefulSet %s, and two pods cannot have one name: delete it to have it restarted elsewhere", owner.Name)
	case "DaemonSet", "Node":
		v.refuse("Owner", "the pod belongs to its node, by %s %s: there is one on each node", owner.Kind, owner.Name)
	default:
		v.refuse("Owner", "the pod belongs to %s %s, which would make another in its place: only bare pods and those of Jobs and ReplicaSets are moved", owner.Kind, owner.Name)
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
		v.refuse("Owner", "Job %s is managed by %s, of which it is not known what it does when a pod is replaced: let the Job controller manage it", job.Name, *by)
	}
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		v.refuse("JobSuspended", "Job %s is suspended, so its pods are about to end", job.Name)
	}
	if policy := job.Spec.PodReplacementPolicy; policy == nil || *policy != batchv1.Failed {
		v.refuse("PodReplacementPolicy", "Job %s replaces pods as soon as they are being deleted, and counts them as failed: "+
			"make it with podReplacementPolicy: Failed (or with a podFailurePolicy, which implies that)", job.Name)
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
		v.refuse("ScaledDown", "ReplicaSet %s wants no pods, so this one is about to end", set.Name)
	}
	if in.Method == v1alpha1.MethodRestart {
		// It would delete the pending new pod before the running old one.
		v.refuse("ReplacedOnEviction", "ReplicaSet %s starts another pod by itself when this one goes: evict it", set.Name)
	}
	if !separable(in.Pod, set) {
		v.refuse("Selector", "ReplicaSet %s would take the new pod before its time: its selector matches pods that lack the labels it names", set.Name)
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
