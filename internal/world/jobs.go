package world

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/internal/cluster/class"
)

// defaultBackoffLimit is the API server's default of a Job's backoffLimit.
const defaultBackoffLimit = 6

// firstPods is how long after its start a Job may take to create its first pods.
const firstPods = time.Minute

// Exit codes of containers that a signal ends: SIGKILL and SIGTERM.
var killed = []int32{137, 143}

// failsJob returns the reason why a pod of a Job is not evicted although it opts in, or "". A Job counts an evicted pod as
// failed, unless its podFailurePolicy ignores disruptions. Neither the Job nor the pod's index may fail by that, nor
// may evictions keep the Job from ever completing: a pod that may replace one that was evicted stays.
//
// A pod whose Job is gone will be deleted, so nothing is lost by its eviction.
func (v *View) failsJob(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "Job" {
		return ""
	}
	if v.unread["Jobs"] {
		return "it belongs to a Job, and Jobs were not read"
	}
	job := v.Jobs[pod.Namespace+"/"+owner.Name]
	if job == nil || job.UID != owner.UID {
		return ""
	}
	action := onDisruption(job)
	switch {
	case action == batchv1.PodFailurePolicyActionFailJob:
		return fmt.Sprintf("the podFailurePolicy of Job %s fails the Job when a pod is evicted", job.Name)
	case action == batchv1.PodFailurePolicyActionFailIndex:
		return fmt.Sprintf("the podFailurePolicy of Job %s fails the index of a pod that is evicted", job.Name)
	case replaces(pod, job, action):
		return "it may have replaced a pod that was restarted, and might never complete if restarted repeatedly"
	case action == batchv1.PodFailurePolicyActionIgnore:
		return ""
	case job.Spec.BackoffLimitPerIndex != nil:
		if *job.Spec.BackoffLimitPerIndex < 1 {
			return fmt.Sprintf("Job %s counts an evicted pod as failed, and its backoffLimitPerIndex is 0", job.Name)
		}
		return ""
	}
	limit := ptr.Deref(job.Spec.BackoffLimit, defaultBackoffLimit)
	if failed := job.Status.Failed + ptr.Deref(job.Status.Terminating, 0) + v.besides(pod, owner); failed > limit {
		return fmt.Sprintf("Job %s counts evicted pods as failed, and would fail: its backoffLimit is %d", job.Name, limit)
	}
	return ""
}

// onDisruption returns what the podFailurePolicy of a Job does about a pod that is evicted. The policy looks at exit codes
// too, which are unknown before the end: a rule that fails the Job or the index for a container that a signal ended
// counts, and other rules for exit codes do not.
func onDisruption(job *batchv1.Job) batchv1.PodFailurePolicyAction {
	if job.Spec.PodFailurePolicy == nil {
		return batchv1.PodFailurePolicyActionCount
	}
	for _, rule := range job.Spec.PodFailurePolicy.Rules {
		fails := rule.Action == batchv1.PodFailurePolicyActionFailJob || rule.Action == batchv1.PodFailurePolicyActionFailIndex
		if codes := rule.OnExitCodes; codes != nil && fails && slices.ContainsFunc(killed, func(code int32) bool {
			return slices.Contains(codes.Values, code) == (codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
		}) {
			return rule.Action
		}
		if slices.ContainsFunc(rule.OnPodConditions, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return p.Type == corev1.DisruptionTarget && (p.Status == corev1.ConditionTrue || p.Status == "")
		}) {
			return rule.Action
		}
	}
	return batchv1.PodFailurePolicyActionCount
}

// replaces reports whether the pod may have replaced one that was evicted. With limits by index, the pod says how often its
// index has failed. Otherwise the pods that a Job creates when it starts replace none, and later ones may if pods have
// failed, or if the Job does not count those that were evicted.
func replaces(pod *corev1.Pod, job *batchv1.Job, action batchv1.PodFailurePolicyAction) bool {
	if text, is := pod.Annotations[batchv1.JobIndexFailureCountAnnotation]; is && action == batchv1.PodFailurePolicyActionCount {
		failed, err := strconv.Atoi(text)
		return err != nil || failed > 0
	}
	if job.Status.Failed == 0 && action == batchv1.PodFailurePolicyActionCount {
		return false
	}
	return job.Status.StartTime == nil || pod.CreationTimestamp.Sub(job.Status.StartTime.Time) > firstPods
}

// besides returns how many pods of the Job the pod's node has, at least 1. All of them leave when the node is drained.
func (v *View) besides(pod *corev1.Pod, owner *metav1.OwnerReference) int32 {
	count := int32(0)
	for _, other := range v.onNode[pod.Spec.NodeName] {
		if other.UID == pod.UID || class.Ended(other) || other.DeletionTimestamp != nil {
			continue
		}
		if of := metav1.GetControllerOfNoCopy(other); of != nil && of.UID == owner.UID {
			count++
		}
	}
	return count + 1
}
