// Package jobs decides whether a Job survives that one of its pods is evicted.
package jobs

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// defaultBackoffLimit is the API server's default of a Job's backoffLimit.
const defaultBackoffLimit = 6

// firstPods is how long after its start a Job may take to create its first pods.
const firstPods = time.Minute

// signals are the exit codes of containers that a signal ends: SIGKILL and SIGTERM.
var signals = []int32{137, 143}

// Keeps returns the reason why the pod must not be evicted for the sake of its Job, or "". leaving is how many pods of the
// Job would be evicted together, including this one.
//
// A Job counts an evicted pod as failed, unless its podFailurePolicy ignores disruptions. Neither the Job nor the pod's
// index may fail by that, nor may evictions keep the Job from ever completing: a pod that may have replaced one that was
// evicted stays.
func Keeps(job *batchv1.Job, pod *corev1.Pod, leaving int32) string {
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
	if job.Status.Failed+ptr.Deref(job.Status.Terminating, 0)+leaving > limit {
		return fmt.Sprintf("Job %s counts evicted pods as failed, and would fail: its backoffLimit is %d", job.Name, limit)
	}
	return ""
}

// onDisruption returns what the podFailurePolicy of a Job does about a pod that is evicted. The policy may name exit codes
// too, which are unknown before the end: a rule that fails the Job or the index for a container that a signal ended
// counts, and other rules for exit codes do not.
func onDisruption(job *batchv1.Job) batchv1.PodFailurePolicyAction {
	if job.Spec.PodFailurePolicy == nil {
		return batchv1.PodFailurePolicyActionCount
	}
	for _, rule := range job.Spec.PodFailurePolicy.Rules {
		fails := rule.Action == batchv1.PodFailurePolicyActionFailJob || rule.Action == batchv1.PodFailurePolicyActionFailIndex
		if codes := rule.OnExitCodes; codes != nil && fails && slices.ContainsFunc(signals, func(code int32) bool {
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
