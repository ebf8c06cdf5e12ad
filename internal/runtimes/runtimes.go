// Package runtimes estimates how long a batch pod runs: the runtime that its owner declared, else the runtime of
// finished pods of its category, else a default. average.go learns other times, such as start-up times, as weighted means.
package runtimes

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Default is the runtime of a batch pod if nothing is known about it and no other default is configured. It is in the
// upper half of the runtimes of the batch jobs of HTAS table 4 (1 to 12 minutes), because expecting a node to become
// empty too early is the costlier mistake.
const Default = 10 * time.Minute

// Max is the longest accepted runtime. A longer one is most likely a mistake, and sums of such times could overflow.
const Max = 10 * 365 * 24 * time.Hour

// Source is the source of an estimate.
type Source string

const (
	// FromAnnotation is the runtime that the owner declared.
	FromAnnotation Source = "annotation"
	// FromCategory is the median runtime of finished pods of the same category.
	FromCategory Source = "category"
	// FromDefault is the configured default.
	FromDefault Source = "default"
)

// Estimate is an expected runtime and its source.
type Estimate struct {
	Runtime time.Duration
	Source  Source
}

// Declared returns the runtime in the pod's annotation, and false if it has none. For a malformed annotation it returns
// false and an error that says what is valid.
func Declared(pod *corev1.Pod) (time.Duration, bool, error) {
	text, ok := pod.Annotations[v1alpha1.AnnotationRuntime]
	if !ok {
		return 0, false, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > Max {
		return 0, false, fmt.Errorf("annotation %s=%q: must be a duration above 0 and at most %.0fh, such as \"90s\" or \"1h30m\"",
			v1alpha1.AnnotationRuntime, text, Max.Hours())
	}
	return d, true, nil
}

// EstimateOf returns the expected runtime of a batch pod. learned may be nil. A malformed annotation is ignored here;
// [Declared] reports it.
func EstimateOf(pod *corev1.Pod, learned *Learner, fallback time.Duration) Estimate {
	if d, ok, _ := Declared(pod); ok {
		return Estimate{d, FromAnnotation}
	}
	if category := pod.Annotations[v1alpha1.AnnotationCategory]; category != "" && learned != nil {
		if d, ok := learned.Median(pod.Namespace, category); ok {
			return Estimate{d, FromCategory}
		}
	}
	return Estimate{fallback, FromDefault}
}

// Expected returns when a bound batch pod is expected to end: the time in the annotation that the scheduler wrote when
// it bound the pod, else the estimate counted from the pod's start, or from its creation if it has not started.
func Expected(pod *corev1.Pod, learned *Learner, fallback time.Duration) time.Time {
	if finish, ok := Written(pod); ok {
		return finish
	}
	start := pod.CreationTimestamp.Time
	if pod.Status.StartTime != nil {
		start = pod.Status.StartTime.Time
	}
	return start.Add(EstimateOf(pod, learned, fallback).Runtime)
}

// Written returns the expected finish in the pod's annotation. It returns false if the annotation is missing or is not
// an RFC 3339 time.
func Written(pod *corev1.Pod) (time.Time, bool) {
	text, ok := pod.Annotations[v1alpha1.AnnotationExpectedFinish]
	if !ok {
		return time.Time{}, false
	}
	finish, err := time.Parse(time.RFC3339, text)
	return finish, err == nil
}

// Format formats an expected finish for [Written], with millisecond precision.
func Format(finish time.Time) string {
	return finish.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// Observed returns the actual runtime of a succeeded pod, from the first start to the last end of its containers. It
// returns false for other pods, because a failed run says nothing about the runtime of a successful one, and for pods
// created by a Migration, which ran only the rest of the work.
func Observed(pod *corev1.Pod) (time.Duration, bool) {
	if _, moved := pod.Annotations[v1alpha1.AnnotationBaseImage]; moved || pod.Status.Phase != corev1.PodSucceeded {
		return 0, false
	}
	var start, end time.Time
	for _, s := range pod.Status.ContainerStatuses {
		t := s.State.Terminated
		if t == nil || t.StartedAt.IsZero() {
			continue
		}
		if start.IsZero() || t.StartedAt.Time.Before(start) {
			start = t.StartedAt.Time
		}
		if t.FinishedAt.After(end) {
			end = t.FinishedAt.Time
		}
	}
	if start.IsZero() || !end.After(start) {
		return 0, false
	}
	return end.Sub(start), true
}

const (
	// window is how many finished pods of a category count: enough to outvote stragglers, few enough to follow a change
	// of input size.
	window = 32
	// maxCategories bounds the memory of a [Learner]. The least recently used categories are forgotten first.
	maxCategories = 10_000
)

// Learner records how long finished pods ran, by namespace and category. It is safe for concurrent use. Memory: at most
// 10,000 categories of 32 runtimes.
type Learner struct {
	mu         sync.Mutex
	categories *lru.Cache
}

type categoryKey struct{ namespace, category string }

// history holds the last runtimes of a category, oldest first, and their median.
type history struct {
	runtimes []time.Duration
	median   time.Duration
}

// NewLearner returns an empty Learner.
func NewLearner() *Learner {
	return &Learner{categories: lru.New(maxCategories)}
}

// Observe records the runtime of a pod of the category. Runtimes that are not positive are ignored.
func (l *Learner) Observe(namespace, category string, runtime time.Duration) {
	if runtime <= 0 || category == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var old []time.Duration
	if v, ok := l.categories.Get(categoryKey{namespace, category}); ok {
		old = v.(history).runtimes
	}
	next := make([]time.Duration, 0, window)
	next = append(append(next, old[max(0, len(old)-window+1):]...), runtime)
	sorted := slices.Clone(next)
	slices.Sort(sorted)
	l.categories.Add(categoryKey{namespace, category}, history{next, sorted[len(sorted)/2]})
}

// ObservePod records the runtime of a pod that has just succeeded. before is the last observed state of the pod, or nil
// if there is none. After a restart, the caller therefore learns from all succeeded pods that still exist.
func (l *Learner) ObservePod(before, after *corev1.Pod) {
	if before != nil && before.Status.Phase == after.Status.Phase {
		return
	}
	if took, ok := Observed(after); ok {
		l.Observe(after.Namespace, after.Annotations[v1alpha1.AnnotationCategory], took)
	}
}

// Median returns the median runtime of the last finished pods of the category, or the upper median if their number is
// even. It returns false if none has finished.
func (l *Learner) Median(namespace, category string) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.categories.Get(categoryKey{namespace, category})
	if !ok {
		return 0, false
	}
	return v.(history).median, true
}
