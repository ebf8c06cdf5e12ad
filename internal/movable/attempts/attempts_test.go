package attempts

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func migration(name, uid string) *v1alpha1.Migration {
	return &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
}

func TestFailuresAreCountedOnceAndByWhoMadeTheMigration(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work", UID: "p"}}
	at := now
	for _, tc := range []struct {
		name, uid    string
		noted        bool
		evict, drain int
	}{
		{"evict-p-1", "1", true, 1, 0},
		{"evict-p-1", "1", false, 1, 0}, // the same, after a crash
		{"evict-p-1", "2", true, 2, 0},  // another one with that name, after the first was deleted
		{"drain-p-1", "3", true, 2, 1},
		{"by-hand", "4", false, 2, 1},
		{"evict-other-1", "5", false, 2, 1},
		{"evict-p-x", "6", false, 2, 1},
	} {
		at = at.Add(time.Hour)
		next := Note(pod, migration(tc.name, tc.uid), at)
		if (next != nil) != tc.noted {
			t.Errorf("%s with UID %s: noted: %v", tc.name, tc.uid, next != nil)
		}
		if next != nil {
			pod = next
		}
		if e, d := Failed(pod, Eviction, at), Failed(pod, Drain, at); e != tc.evict || d != tc.drain {
			t.Errorf("after %s with UID %s: %d evictions and %d drains, want %d and %d", tc.name, tc.uid, e, d, tc.evict, tc.drain)
		}
	}
	if later := at.Add(Lasts); Failed(pod, Eviction, later) != 0 {
		t.Error("failures count for longer than they last")
	}
	if next := Note(pod, migration("evict-p-9", "9"), at.Add(Lasts)); Failed(next, Eviction, at.Add(Lasts)) != 1 {
		t.Errorf("failures that have lapsed are counted on: %s", next.Annotations[Annotation])
	}
}

func TestARecordThatSomebodyHasBrokenDoesNotCount(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"failed":{"evict":-5},"at":"2026-01-01T12:00:00Z"}`, `{"failed":3}`} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p", Annotations: map[string]string{Annotation: text}}}
		if n := Failed(pod, Eviction, now); n != 0 {
			t.Errorf("%q counts as %d", text, n)
		}
		if next := Note(pod, migration("evict-p-1", "1"), now); Failed(next, Eviction, now) != 1 {
			t.Errorf("%q is not overwritten: %q", text, next.Annotations[Annotation])
		}
	}
}

func FuzzNoRecordGrowsOrPanics(f *testing.F) {
	f.Add(`{"last":"1","at":"2026-01-01T12:00:00Z","failed":{"evict":2,"x":1}}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p", Annotations: map[string]string{Annotation: text}}}
		before := Failed(pod, Drain, now)
		if before < 0 || before > most {
			t.Fatalf("%q counts as %d", text, before)
		}
		next := Note(pod, migration("drain-p-1", "the-uid"), now)
		if next == nil {
			return // counted already
		}
		if got := Failed(next, Drain, now); got != min(before+1, most) {
			t.Errorf("%d has become %d", before, got)
		}
		if got := next.Annotations[Annotation]; len(got) > 200 || strings.Contains(got, "\n") {
			t.Errorf("it is written as %q", got)
		}
	})
}
