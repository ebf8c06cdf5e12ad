package runtimes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func annotated(pairs ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Annotations: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		p.Annotations["supercargo.dev/"+pairs[i]] = pairs[i+1]
	}
	return p
}

func TestDeclaredRuntime(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
	}{
		{"3m", 3 * time.Minute}, {"1h30m", 90 * time.Minute}, {"0.5s", time.Second / 2},
		{"", 0}, {"3", 0}, {"-3m", 0}, {"0s", 0}, {"three minutes", 0}, {"NaN", 0}, {"2d", 0},
		{"9999999h", 0}, {"99999999999999h", 0}, {strings.Repeat("1", 1000) + "s", 0},
	}
	for _, tc := range tests {
		t.Run(tc.text[:min(len(tc.text), 20)], func(t *testing.T) {
			got, ok, err := Declared(annotated("runtime", tc.text))
			if got != tc.want || ok != (tc.want > 0) || (err != nil) != (tc.want == 0) {
				t.Errorf("Declared(%q) = %v, %t, %v", tc.text, got, ok, err)
			}
			if err != nil && !strings.Contains(err.Error(), "supercargo.dev/runtime=") {
				t.Errorf("the error does not name the annotation: %v", err)
			}
		})
	}
	if d, ok, err := Declared(&corev1.Pod{}); d != 0 || ok || err != nil {
		t.Errorf("a pod without annotation: %v, %t, %v", d, ok, err)
	}
}

func TestEstimatePrefersTheOwnersWordThenTheCategoryThenTheDefault(t *testing.T) {
	l := NewLearner()
	l.Observe("ns", "render", 7*time.Minute)
	tests := []struct {
		name string
		pod  *corev1.Pod
		l    *Learner
		want Estimate
	}{
		{"annotation", annotated("runtime", "2m", "category", "render"), l, Estimate{2 * time.Minute, FromAnnotation}},
		{"category", annotated("category", "render"), l, Estimate{7 * time.Minute, FromCategory}},
		{"a malformed annotation is passed over", annotated("runtime", "soon", "category", "render"), l, Estimate{7 * time.Minute, FromCategory}},
		{"an unknown category", annotated("category", "other"), l, Estimate{time.Hour, FromDefault}},
		{"nothing learned", annotated("category", "render"), nil, Estimate{time.Hour, FromDefault}},
		{"nothing said", annotated(), l, Estimate{time.Hour, FromDefault}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := EstimateOf(tc.pod, tc.l, time.Hour); got != tc.want {
				t.Errorf("estimate %+v, want %+v", got, tc.want)
			}
		})
	}
	other := annotated("category", "render")
	other.Namespace = "another"
	if got := EstimateOf(other, l, time.Hour); got.Source != FromDefault {
		t.Errorf("a category of another namespace was used: %+v", got)
	}
}

func TestLearnerFollowsTheMedianOfTheLatest(t *testing.T) {
	l := NewLearner()
	if _, ok := l.Median("ns", "c"); ok {
		t.Error("an empty learner has an estimate")
	}
	check := func(want time.Duration) {
		t.Helper()
		if got, _ := l.Median("ns", "c"); got != want {
			t.Errorf("median %v, want %v", got, want)
		}
	}
	l.Observe("ns", "c", time.Minute)
	check(time.Minute)
	l.Observe("ns", "c", 3*time.Minute)
	check(3 * time.Minute) // the upper median
	l.Observe("ns", "c", 100*time.Hour)
	check(3 * time.Minute) // an outlier does not change it much
	l.Observe("ns", "c", 0)
	l.Observe("ns", "c", -time.Hour)
	check(3 * time.Minute)
	for range window {
		l.Observe("ns", "c", 5*time.Minute)
	}
	check(5 * time.Minute) // values older than the window are forgotten
	l.Observe("ns", "c", 6*time.Minute)
	if v, _ := l.categories.Get(categoryKey{"ns", "c"}); len(v.(history).runtimes) != window {
		t.Errorf("%d runtimes are kept, want %d", len(v.(history).runtimes), window)
	}
}

func TestLearnerForgetsBeyondItsBound(t *testing.T) {
	l := NewLearner()
	for i := range maxCategories + 5 {
		l.Observe("ns", fmt.Sprint(i), time.Minute)
	}
	if _, ok := l.Median("ns", "0"); ok {
		t.Error("the oldest category is still known")
	}
	if _, ok := l.Median("ns", fmt.Sprint(maxCategories)); !ok {
		t.Error("a recent category is forgotten")
	}
}

func TestExpectedFinish(t *testing.T) {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := annotated("runtime", "5m")
	pod.CreationTimestamp = metav1.NewTime(created)
	check := func(name string, want time.Time) {
		t.Helper()
		if got := Expected(pod, nil, time.Hour); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	check("not started: from creation", created.Add(5*time.Minute))
	started := metav1.NewTime(created.Add(time.Minute))
	pod.Status.StartTime = &started
	check("started: from its start", created.Add(6*time.Minute))
	finish := created.Add(33*time.Minute + 250*time.Millisecond)
	pod.Annotations["supercargo.dev/expected-finish"] = Format(finish)
	check("written by the scheduler, to the millisecond", finish)
	pod.Annotations["supercargo.dev/expected-finish"] = "tomorrow"
	check("a invalid annotation is passed over", created.Add(6*time.Minute))
}

func TestObservedRuntimeNeedsASuccess(t *testing.T) {
	at := func(s int) metav1.Time { return metav1.NewTime(time.Unix(int64(s), 0)) }
	ended := func(from, to int) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(from), FinishedAt: at(to)}}}
	}
	tests := []struct {
		name     string
		phase    corev1.PodPhase
		statuses []corev1.ContainerStatus
		want     time.Duration
	}{
		{"one container", corev1.PodSucceeded, []corev1.ContainerStatus{ended(10, 40)}, 30 * time.Second},
		{"from the first start to the last end", corev1.PodSucceeded, []corev1.ContainerStatus{ended(20, 40), ended(10, 15)}, 30 * time.Second},
		{"a failure teaches nothing", corev1.PodFailed, []corev1.ContainerStatus{ended(10, 40)}, 0},
		{"no container status", corev1.PodSucceeded, nil, 0},
		{"ends before it starts", corev1.PodSucceeded, []corev1.ContainerStatus{ended(40, 10)}, 0},
		{"still running", corev1.PodSucceeded, []corev1.ContainerStatus{{}}, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := Observed(&corev1.Pod{Status: corev1.PodStatus{Phase: tc.phase, ContainerStatuses: tc.statuses}})
			if got != tc.want || ok != (tc.want > 0) {
				t.Errorf("Observed = %v, %t, want %v", got, ok, tc.want)
			}
		})
	}
	rest := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{ended(10, 40)}}}
	rest.Annotations = map[string]string{"supercargo.dev/base-image": "work:1"}
	if got, ok := Observed(rest); ok {
		t.Errorf("a pod that was begun on another node is said to have taken %v", got)
	}
}

func FuzzDeclared(f *testing.F) {
	for _, s := range []string{"3m", "1h", "-1s", "x", "1e9h", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok, err := Declared(annotated("runtime", text))
		if ok != (err == nil) || ok && (d <= 0 || d > Max) {
			t.Errorf("Declared(%q) = %v, %t, %v", text, d, ok, err)
		}
	})
}
