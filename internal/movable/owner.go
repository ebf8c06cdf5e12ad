package movable

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkOwner refuses pods whose owner would not let another pod take their place.
func (v *Verdict) checkOwner(in Input) {
	pod := in.Pod
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		v.refuse("StaticPod", "the pod is a static one that its kubelet keeps: move its manifest to the other node")
		return
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		if len(pod.OwnerReferences) > 0 {
			v.refuse("Owner", "the pod belongs to %s %s, which would not know the new one: only bare pods and those of Jobs are moved",
				pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name)
		}
		return
	}
	switch owner.Kind {
	case "Job":
		v.checkJob(in.Job, owner)
	case "StatefulSet":
		v.refuse("Owner", "the pod belongs to StatefulSet %s, and two pods cannot have one name: delete it to have it started anew elsewhere", owner.Name)
	case "DaemonSet", "Node":
		v.refuse("Owner", "the pod belongs to its node, by %s %s: there is one on each node", owner.Kind, owner.Name)
	default:
		v.refuse("Owner", "the pod belongs to %s %s, which would make another in its place: only bare pods and those of Jobs are moved", owner.Kind, owner.Name)
	}
}

// checkJob refuses Jobs that would count the old pod as failed, or start another
// before it is dead.
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

// JobLabels returns those labels of a pod by which the Job controller finds it. job may
// be nil if it is gone.
func JobLabels(pod *corev1.Pod, job *batchv1.Job) map[string]string {
	keys := []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, batchv1.JobCompletionIndexAnnotation, "controller-uid", "job-name"}
	if job != nil && job.Spec.Selector != nil {
		for key := range job.Spec.Selector.MatchLabels {
			keys = append(keys, key)
		}
		for _, e := range job.Spec.Selector.MatchExpressions {
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
