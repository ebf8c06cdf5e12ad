package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// TestASpreadConstraintThatSelectsByNoRequirement compares what kube-scheduler does before Kubernetes 1.38 and since: of
// two hosts, one has a pod.
func TestASpreadConstraintThatSelectsByNoRequirement(t *testing.T) {
	of := func(selector *metav1.LabelSelector) func(*corev1.Pod) {
		return spreadOver(hostname, 1, "", func(in *corev1.TopologySpreadConstraint) { in.LabelSelector = selector })
	}
	tests := []struct {
		name          string
		selector      *metav1.LabelSelector
		namespace     string // of the pod that is there
		before, since bool   // whether the host of that pod is refused
	}{
		{"all pods", &metav1.LabelSelector{}, "shop", false, true},
		{"all pods, but not of other namespaces", &metav1.LabelSelector{}, "bare", false, false},
		{"no pods", nil, "shop", false, false},
		{"some pods", selects("web"), "shop", true, true},
	}
	for _, tt := range tests {
		for _, all := range []bool{false, true} {
			c, tracker := constraint.NewCompiler(knownNamespaces), constraint.NewTracker()
			c.SpreadsAmongAll = all
			host, _ := tracker.AddHost(in("a", "1")), tracker.AddHost(in("a", "2"))
			other := pod("web")
			other.Namespace = tt.namespace
			tracker.Place(mustCompile(t, c, other), host)
			want := tt.before
			if all {
				want = tt.since
			}
			if got := tracker.Check(mustCompile(t, c, pod("web", of(tt.selector))), host) != ""; got != want {
				t.Errorf("%s, SpreadsAmongAll %t: the host is refused: %t, want %t", tt.name, all, got, want)
			}
		}
	}
}
