package conditions_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"supercargo.dev/supercargo/internal/platform/conditions"
)

func reporter(recorder *events.FakeRecorder) *conditions.Reporter {
	return &conditions.Reporter{
		Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: 7}}, Conditions: &[]metav1.Condition{},
		Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Events: recorder, Last: map[string]string{},
	}
}

// recorded returns the Events so far.
func recorded(recorder *events.FakeRecorder) []string {
	var all []string
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	return all
}

func TestAnEventIsRecordedUnlessTheLastOfItsReasonWasAboutTheSame(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := reporter(recorder)
	for _, message := range []string{"a", "a", "b", "a"} {
		r.Event("Normal", "First", "Act", message)
	}
	r.Event("Warning", "Second", "Hold", "a")
	r.EventAbout("x", "Normal", "Third", "Act", "5 of x")
	r.EventAbout("x", "Normal", "Third", "Act", "6 of x")
	delete(r.Last, "Third")
	r.EventAbout("x", "Normal", "Third", "Act", "7 of x")
	want := "Normal First a, Normal First b, Normal First a, Warning Second a, Normal Third 5 of x, Normal Third 7 of x"
	if got := strings.Join(recorded(recorder), ", "); got != want {
		t.Errorf("recorded: %s\nwant:     %s", got, want)
	}
}

func TestADryRunRecordsNoEvent(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := reporter(recorder)
	r.DryRun = true
	r.Event("Normal", "First", "Act", "a")
	if got := recorded(recorder); len(got) > 0 {
		t.Errorf("recorded: %v", got)
	}
}

func TestAnEventIsTruncated(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	reporter(recorder).Event("Normal", "First", "Act", strings.Repeat("x", 2*conditions.MaxMessage))
	if got := recorded(recorder); len(got) != 1 || len(got[0]) > conditions.MaxMessage+len("Normal First ") {
		t.Errorf("recorded %d Events, the first with %d bytes", len(got), len(got[0]))
	}
}

func TestAConditionHasTheGenerationOfItsObjectAndTheTimeOfItsReconciliation(t *testing.T) {
	r := reporter(nil)
	r.Condition("Ready", true, "Fine", "all is well")
	want := metav1.Condition{Type: "Ready", Status: "True", Reason: "Fine", Message: "all is well", ObservedGeneration: 7, LastTransitionTime: metav1.NewTime(r.Now)}
	if got := *r.Conditions; len(got) != 1 || got[0] != want {
		t.Errorf("the conditions are %+v", got)
	}
}
