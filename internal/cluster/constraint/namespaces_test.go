package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// TestASelectorOfNamespacesThatMatchesEmptyLabels compares what kube-scheduler does before Kubernetes 1.37 and since.
func TestASelectorOfNamespacesThatMatchesEmptyLabels(t *testing.T) {
	notBatch := func(term *corev1.PodAffinityTerm) {
		term.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"batch"}},
		}}
	}
	everywhere := func(term *corev1.PodAffinityTerm) { term.NamespaceSelector = &metav1.LabelSelector{} }
	tests := []struct {
		name          string
		change        func(*corev1.PodAffinityTerm)
		of            string // the namespace of the pod that is there
		before, since bool   // whether the term selects that pod
	}{
		{"selected", notBatch, "bare", true, true},
		{"not selected", notBatch, "batch", true, false},
		{"unknown", notBatch, "leftover", true, false},
		{"all are selected", everywhere, "batch", true, true},
		{"all are selected, also unknown ones", everywhere, "leftover", true, true},
	}
	for _, tt := range tests {
		for _, resolves := range []bool{false, true} {
			c, tracker := constraint.NewCompiler(knownNamespaces), constraint.NewTracker()
			c.ResolvesNamespaces = resolves
			other := pod("web")
			other.Namespace = tt.of
			host := tracker.AddHost(in("a", "1"))
			tracker.Place(mustCompile(t, c, other), host)
			want := tt.before
			if resolves {
				want = tt.since
			}
			if got := tracker.Check(mustCompile(t, c, pod("x", awayFrom("web", hostname, tt.change))), host) != ""; got != want {
				t.Errorf("%s, resolves %t: anti-affinity selects the pod: %t, want %t", tt.name, resolves, got, want)
			}
		}
	}
}
