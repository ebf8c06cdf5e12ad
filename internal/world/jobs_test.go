package world

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/runtimes"
)

// onCondition is a rule of a podFailurePolicy for disrupted pods.
func onCondition(action batchv1.PodFailurePolicyAction, status corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: status}}}
}

// onCodes is a rule for exit codes.
func onCodes(action batchv1.PodFailurePolicyAction, operator batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: operator, Values: codes}}
}

// ruled gives the Job of the scene a podFailurePolicy.
func ruled(rules ...batchv1.PodFailurePolicyRule) change {
	return func(w *World, _ *corev1.Pod) {
		w.Jobs["default/j"].Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
	}
}

// failed has the Job of the scene, which started an hour ago, count failed pods.
func failed(count int32) change {
	return func(w *World, _ *corev1.Pod) {
		w.Jobs["default/j"].Status = batchv1.JobStatus{Failed: count, StartTime: new(metav1.NewTime(noon.Add(-time.Hour)))}
	}
}

// createdAfter sets how long after the start of its Job the pod was created.
func createdAfter(d time.Duration) change {
	return func(_ *World, p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(d - time.Hour)) }
}

// limited sets the backoffLimit of the Job of the scene.
func limited(limit int32) change {
	return func(w *World, _ *corev1.Pod) { w.Jobs["default/j"].Spec.BackoffLimit = &limit }
}

// perIndex sets the limit by index and how often the pod's index has failed.
func perIndex(limit int32, failed string) change {
	return func(w *World, p *corev1.Pod) {
		w.Jobs["default/j"].Spec.BackoffLimitPerIndex = &limit
		p.Annotations[batchv1.JobIndexFailureCountAnnotation] = failed
	}
}

// beside adds pods of the Job to the pod's node.
func beside(count int) change {
	return func(w *World, p *corev1.Pod) {
		for i := range count {
			other := p.DeepCopy()
			other.Name, other.UID = fmt.Sprintf("other-%d", i), types.UID(fmt.Sprintf("other-%d", i))
			w.Pods = append(w.Pods, other)
		}
	}
}

func TestAPodOfAJobIsEvictedOnlyIfItsJobSurvivesThat(t *testing.T) {
	const ignore, count, failJob, failIndex = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex
	const in, notIn = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	for _, tc := range []struct {
		name    string
		changes []change
		held    string // empty: it may be evicted
	}{
		{"a Job with the default limit", nil, ""},
		{"a Job that ignores disruptions", []change{ruled(onCondition(ignore, corev1.ConditionTrue)), limited(0), failed(0), createdAfter(time.Second)}, ""},
		{"also without a status in the rule", []change{ruled(onCondition(ignore, "")), limited(0), failed(0), createdAfter(time.Second)}, ""},
		{"a rule for pods that are not disrupted", []change{ruled(onCondition(ignore, corev1.ConditionFalse)), limited(0)}, "backoffLimit is 0"},
		{"a Job that fails when a pod is disrupted", []change{ruled(onCondition(failJob, corev1.ConditionTrue))}, "fails the Job"},
		{"whose index fails", []change{ruled(onCondition(failIndex, corev1.ConditionTrue))}, "fails the index"},
		{"the first rule that applies decides", []change{ruled(onCondition(ignore, ""), onCondition(failJob, "")), failed(0), createdAfter(0)}, ""},
		{"one that counts disruptions", []change{ruled(onCondition(count, ""), onCondition(failJob, "")), limited(1)}, ""},
		{"one that fails when a container was killed", []change{ruled(onCodes(failJob, in, 1, 143), onCondition(ignore, ""))}, "fails the Job"},
		{"or asked to end", []change{ruled(onCodes(failIndex, in, 137))}, "fails the index"},
		{"or ended with any other code than these", []change{ruled(onCodes(failJob, notIn, 1, 2))}, "fails the Job"},
		{"one that fails for other codes", []change{ruled(onCodes(failJob, in, 42))}, ""},
		{"or for all but those of signals", []change{ruled(onCodes(failJob, notIn, 137, 143))}, ""},
		{"one that ignores codes of signals may see others", []change{ruled(onCodes(ignore, in, 137, 143)), limited(0)}, "backoffLimit is 0"},

		{"one that allows no failure", []change{limited(0)}, "would fail: its backoffLimit is 0"},
		{"one that allows one", []change{limited(1)}, ""},
		{"of which one has been", []change{limited(1), failed(1), createdAfter(0)}, "would fail: its backoffLimit is 1"},
		{"or is about to be", []change{limited(1), failed(0), createdAfter(0), func(w *World, _ *corev1.Pod) {
			w.Jobs["default/j"].Status.Terminating = new(int32(1))
		}}, "would fail: its backoffLimit is 1"},
		{"seven pods on the node and the default limit of six", []change{beside(6)}, "would fail: its backoffLimit is 6"},
		{"six pods", []change{beside(5)}, ""},
		{"seven pods, of which one ends", []change{beside(6), func(w *World, _ *corev1.Pod) { w.Pods[1].DeletionTimestamp = &metav1.Time{} }}, ""},
		{"seven pods, of which one has ended", []change{beside(6), func(w *World, _ *corev1.Pod) { w.Pods[1].Status.Phase = corev1.PodSucceeded }}, ""},
		{"seven pods, of which one belongs to another Job", []change{beside(6), func(w *World, _ *corev1.Pod) { w.Pods[1].OwnerReferences[0].UID = "k" }}, ""},
		{"an index that may fail", []change{perIndex(1, "0"), limited(0)}, ""},
		{"an index that may not", []change{perIndex(0, "0")}, "backoffLimitPerIndex is 0"},

		{"a pod that was created with its Job", []change{failed(1), createdAfter(time.Minute)}, ""},
		{"one that may replace one that failed", []change{failed(1), createdAfter(time.Minute + time.Second)}, "may have replaced"},
		{"one that came later, while none had failed", []change{failed(0), createdAfter(time.Hour)}, ""},
		{"one that came later, of a Job that does not count the evicted", []change{ruled(onCondition(ignore, "")), failed(0), createdAfter(time.Hour)}, "may have replaced"},
		{"one of a Job that has not said when it started", []change{ruled(onCondition(ignore, ""))}, "may have replaced"},
		{"an index that has failed", []change{perIndex(3, "1")}, "may have replaced"},
		{"an index that has not, though others have", []change{perIndex(3, "0"), failed(2), createdAfter(time.Hour)}, ""},
		{"an index of which nobody knows", []change{perIndex(3, "many")}, "may have replaced"},

		{"a Job that was not read", []change{func(w *World, _ *corev1.Pod) { w.Unread("Jobs") }}, "Jobs were not read"},
		{"a Job that is gone", []change{limited(0), func(w *World, _ *corev1.Pod) { delete(w.Jobs, "default/j") }}, ""},
		{"a later Job of that name", []change{limited(0), func(w *World, _ *corev1.Pod) { w.Jobs["default/j"].UID = "later" }}, ""},
		{"a pod of something else", []change{limited(0), func(_ *World, p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }}, ""},
		{"one that is only said to be safe to evict", []change{limited(0), func(_ *World, p *corev1.Pod) {
			p.Annotations = map[string]string{annotationSafeToEvict: "true"}
		}}, "would fail"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, pod := scene()
			pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
			w.Pods = []*corev1.Pod{pod}
			for _, f := range tc.changes {
				f(w, pod)
			}
			got := NewView(w, noon, runtimes.NewLearner()).Exit(pod)
			if got.Ways.Has(cluster.Evict) != (tc.held == "") || !strings.Contains(got.Held, tc.held) || tc.held == "" && got.Held != "" {
				t.Errorf("it may leave by %v (%q), want it held by %q", got.Ways, got.Held, tc.held)
			}
		})
	}
}
