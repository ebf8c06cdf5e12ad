package jobs

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// change changes a Job with the API server's defaults and its pod, which was created with it.
type change func(*batchv1.Job, *corev1.Pod)

// onCondition is a rule for disrupted pods.
func onCondition(action batchv1.PodFailurePolicyAction, status corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: status}}}
}

// onCodes is a rule for exit codes.
func onCodes(action batchv1.PodFailurePolicyAction, operator batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: operator, Values: codes}}
}

func ruled(rules ...batchv1.PodFailurePolicyRule) change {
	return func(j *batchv1.Job, _ *corev1.Pod) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
	}
}

func failed(count int32) change {
	return func(j *batchv1.Job, _ *corev1.Pod) { j.Status.Failed = count }
}

func limited(limit int32) change {
	return func(j *batchv1.Job, _ *corev1.Pod) { j.Spec.BackoffLimit = &limit }
}

// after sets how long after the start of its Job the pod was created.
func after(d time.Duration) change {
	return func(_ *batchv1.Job, p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(start.Add(d)) }
}

// perIndex sets the limit by index and how often the pod's index has failed.
func perIndex(limit int32, failed string) change {
	return func(j *batchv1.Job, p *corev1.Pod) {
		j.Spec.BackoffLimitPerIndex = &limit
		p.Annotations = map[string]string{batchv1.JobIndexFailureCountAnnotation: failed}
	}
}

func TestAJobKeepsAPodIfItWouldNotSurviveItsEviction(t *testing.T) {
	const ignore, count, failJob, failIndex = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex
	const in, notIn = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	for _, tc := range []struct {
		name    string
		changes []change
		leaving int32
		keeps   string // empty: the pod may be evicted
	}{
		{"a Job with the default limit", nil, 1, ""},
		{"a Job that ignores disruptions", []change{ruled(onCondition(ignore, corev1.ConditionTrue)), limited(0)}, 1, ""},
		{"also without a status in the rule", []change{ruled(onCondition(ignore, "")), limited(0)}, 1, ""},
		{"a rule for pods that are not disrupted", []change{ruled(onCondition(ignore, corev1.ConditionFalse)), limited(0)}, 1, "backoffLimit is 0"},
		{"a rule for another condition", []change{func(j *batchv1.Job, p *corev1.Pod) {
			rule := onCondition(failJob, "")
			rule.OnPodConditions[0].Type = "ConfigIssue"
			ruled(rule)(j, p)
		}}, 1, ""},
		{"a Job that fails when a pod is disrupted", []change{ruled(onCondition(failJob, corev1.ConditionTrue))}, 1, "fails the Job"},
		{"whose index fails", []change{ruled(onCondition(failIndex, corev1.ConditionTrue))}, 1, "fails the index"},
		{"the first rule that applies decides", []change{ruled(onCondition(ignore, ""), onCondition(failJob, ""))}, 1, ""},
		{"one that counts disruptions", []change{ruled(onCondition(count, ""), onCondition(failJob, "")), limited(1)}, 1, ""},
		{"one that fails when a container was asked to end", []change{ruled(onCodes(failJob, in, 1, 143), onCondition(ignore, ""))}, 1, "fails the Job"},
		{"or killed", []change{ruled(onCodes(failIndex, in, 137))}, 1, "fails the index"},
		{"or ended with any other code than these", []change{ruled(onCodes(failJob, notIn, 1, 2))}, 1, "fails the Job"},
		{"one that fails for other codes", []change{ruled(onCodes(failJob, in, 42))}, 1, ""},
		{"or for all but those of signals", []change{ruled(onCodes(failJob, notIn, 137, 143))}, 1, ""},
		{"one that ignores codes of signals may see others", []change{ruled(onCodes(ignore, in, 137, 143)), limited(0)}, 1, "backoffLimit is 0"},

		{"one that allows no failure", []change{limited(0)}, 1, "would fail: its backoffLimit is 0"},
		{"one that allows one", []change{limited(1)}, 1, ""},
		{"of which one has been", []change{limited(1), failed(1)}, 1, "would fail: its backoffLimit is 1"},
		{"or is about to be", []change{limited(1), func(j *batchv1.Job, _ *corev1.Pod) { j.Status.Terminating = new(int32(1)) }}, 1, "would fail: its backoffLimit is 1"},
		{"six pods at once and the default limit of six", nil, 6, ""},
		{"seven pods", nil, 7, "would fail: its backoffLimit is 6"},
		{"an index that may fail", []change{perIndex(1, "0"), limited(0)}, 7, ""},
		{"an index that may not", []change{perIndex(0, "0")}, 1, "backoffLimitPerIndex is 0"},

		{"a pod that was created with its Job", []change{failed(1), after(time.Minute)}, 1, ""},
		{"one that may replace one that failed", []change{failed(1), after(time.Minute + time.Second)}, 1, "may have replaced"},
		{"one that came later, while none had failed", []change{after(time.Hour)}, 1, ""},
		{"one that came later, of a Job that does not count the evicted", []change{ruled(onCondition(ignore, "")), after(time.Hour)}, 1, "may have replaced"},
		{"one of a Job that has not reported when it started", []change{ruled(onCondition(ignore, "")), func(j *batchv1.Job, _ *corev1.Pod) { j.Status.StartTime = nil }}, 1, "may have replaced"},
		{"an index that has failed", []change{perIndex(3, "1")}, 1, "may have replaced"},
		{"an index that has not, though others have", []change{perIndex(3, "0"), failed(2), after(time.Hour)}, 1, ""},
		{"an index that has not, of a Job that does not count the evicted", []change{perIndex(3, "0"), ruled(onCondition(ignore, "")), after(time.Hour)}, 1, "may have replaced"},
		{"an index of which nobody knows", []change{perIndex(3, "many")}, 1, "may have replaced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Status: batchv1.JobStatus{StartTime: new(metav1.NewTime(start))}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(start)}}
			for _, f := range tc.changes {
				f(job, pod)
			}
			if got := Keeps(job, pod, tc.leaving); (got == "") != (tc.keeps == "") || !strings.Contains(got, tc.keeps) {
				t.Errorf("it is kept because %q, want %q", got, tc.keeps)
			}
		})
	}
}
