package drain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func nodeMarked(text string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationDraining: text}}}
}

func TestMarksSayWhoSinceWhenAndUntilWhen(t *testing.T) {
	tests := []struct {
		text string
		want Mark
	}{
		{"f/2026-01-01T12:00:00Z", Mark{Owner: "f", Since: noon}},
		{"f/2026-01-01T13:00:00+01:00", Mark{Owner: "f", Since: noon}},
		{"f/2026-01-01T12:00:00Z/2026-01-01T12:05:00Z", Mark{Owner: "f", Since: noon, Until: noon.Add(5 * time.Minute)}},
		{"f/soon/later", Mark{Owner: "f"}},
		{"f", Mark{Owner: "f"}},
		{"", Mark{}},
	}
	for _, tc := range tests {
		if got, ok := MarkOf(nodeMarked(tc.text)); got.Owner != tc.want.Owner || !got.Since.Equal(tc.want.Since) || !got.Until.Equal(tc.want.Until) || !ok {
			t.Errorf("%q says %+v (%t)", tc.text, got, ok)
		}
	}
	if _, ok := MarkOf(&corev1.Node{}); ok {
		t.Error("a node without a mark is emptied")
	}
}

func TestWhatAMarkSaysCanBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Mark{
			Owner: rapid.StringMatching(`[a-z][a-z0-9-]{0,20}|Descheduler`).Draw(t, "owner"),
			Since: noon.Add(time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "since")) * time.Second),
		}
		if s := rapid.Int64Range(0, 1e6).Draw(t, "until"); s > 0 {
			want.Until = want.Since.Add(time.Duration(s) * time.Second)
		}
		if got, ok := MarkOf(nodeMarked(want.String())); got != want || !ok {
			t.Fatalf("%q is read as %+v, want %+v", want, got, want)
		}
	})
}
