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

// TestAPodOfAJobIsEvictedOnlyIfItsJobSurvivesThat has what a view adds to package jobs: which Job it is, and how many of
// its pods would leave.
func TestAPodOfAJobIsEvictedOnlyIfItsJobSurvivesThat(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changes []change
		held    string // empty: it may be evicted
	}{
		{"a Job with the default limit", nil, ""},
		{"one that allows no failure", []change{limited(0)}, "would fail: its backoffLimit is 0"},
		{"seven pods on the node and the default limit of six", []change{beside(6)}, "would fail: its backoffLimit is 6"},
		{"six pods", []change{beside(5)}, ""},
		{"seven pods, of which one is being deleted", []change{beside(6), func(w *World, _ *corev1.Pod) { w.Pods[1].DeletionTimestamp = &metav1.Time{} }}, ""},
		{"seven pods, of which one has ended", []change{beside(6), func(w *World, _ *corev1.Pod) { w.Pods[1].Status.Phase = corev1.PodSucceeded }}, ""},
		{"seven pods, of which one belongs to another Job", []change{beside(6), func(w *World, _ *corev1.Pod) { w.Pods[1].OwnerReferences[0].UID = "k" }}, ""},
		{"seven pods, of which one is on another node", []change{beside(6), func(w *World, _ *corev1.Pod) { w.Pods[1].Spec.NodeName = "b" }}, ""},
		{"a Job that was not read", []change{func(w *World, _ *corev1.Pod) { w.Unread("Jobs") }}, "Jobs were not read"},
		{"a Job that is gone", []change{limited(0), func(w *World, _ *corev1.Pod) { delete(w.Jobs, "default/j") }}, ""},
		{"a later Job of that name", []change{limited(0), func(w *World, _ *corev1.Pod) { w.Jobs["default/j"].UID = "later" }}, ""},
		{"a pod of something else", []change{limited(0), func(_ *World, p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }}, ""},
		{"one that only states that it is safe to evict", []change{limited(0), func(_ *World, p *corev1.Pod) {
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
