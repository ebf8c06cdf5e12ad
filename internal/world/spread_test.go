package world

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/runtimes"
)

// softly is a soft topology spread constraint over zones on the pods of an app.
func softly(app string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}
}

// TestSoftSpreadConstraintsOfPendingPodsAreCounted has two pods of app x of revision 1 in zone a, one of revision 2 in zone b,
// and others that no constraint counts.
func TestSoftSpreadConstraintsOfPendingPodsAreCounted(t *testing.T) {
	both := map[string]int{"a": 2, "b": 1}
	change := func(of func(*corev1.TopologySpreadConstraint)) []corev1.TopologySpreadConstraint {
		c := softly("x")
		of(&c)
		return []corev1.TopologySpreadConstraint{c}
	}
	for name, tc := range map[string]struct {
		all  []corev1.TopologySpreadConstraint
		want map[string]int // nil: none is counted
	}{
		"none":                  {nil, nil},
		"one over zones":        {[]corev1.TopologySpreadConstraint{softly("x")}, both},
		"of its own revision":   {change(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"revision"} }), map[string]int{"a": 2}},
		"a hard one":            {change(func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.DoNotSchedule }), nil},
		"one over nodes":        {change(func(c *corev1.TopologySpreadConstraint) { c.TopologyKey = corev1.LabelHostname }), nil},
		"one on other pods":     {[]corev1.TopologySpreadConstraint{softly("y")}, nil},
		"the first that counts": {[]corev1.TopologySpreadConstraint{softly("y"), softly("x")}, both},
		"one that selects by set": {change(func(c *corev1.TopologySpreadConstraint) {
			c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"y"}}}}
		}), both},
		"one that selects by no requirement":                        {change(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = &metav1.LabelSelector{} }), nil},
		"since Kubernetes 1.38, one that selects by no requirement": {change(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = &metav1.LabelSelector{} }), map[string]int{"a": 2, "b": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := scene()
			for zone, node := range w.Nodes {
				node.Labels = map[string]string{corev1.LabelTopologyZone: zone}
				if strings.HasPrefix(name, "since Kubernetes 1.38") {
					node.Status.NodeInfo.KubeletVersion = "v1.38.0"
				}
			}
			add := func(namespace, app, revision, node string) *corev1.Pod {
				w.Pods = append(w.Pods, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(len(w.Pods)), Labels: map[string]string{"app": app, "revision": revision}}, Spec: corev1.PodSpec{NodeName: node},
				})
				return w.Pods[len(w.Pods)-1]
			}
			add("default", "x", "1", "a")
			add("default", "x", "1", "a")
			add("default", "x", "2", "b")
			add("default", "x", "1", "")
			add("default", "x", "1", "a").DeletionTimestamp = &metav1.Time{}
			add("other", "x", "1", "a")
			add("default", "y", "1", "b")
			pod.Spec.NodeName, pod.Spec.TopologySpreadConstraints, pod.Labels = "", tc.all, map[string]string{"app": "x", "revision": "1"}
			w.Pods = append(w.Pods, pod)
			v := NewView(w, noon, runtimes.NewLearner())
			got, held := v.wait(w.Pods[len(w.Pods)-1])
			if held != "" || (got.Spread == "") != (tc.want == nil) || !maps.Equal(v.Spreads()[got.Spread], tc.want) {
				t.Errorf("constraint %q (%s) counts %v, want %v", got.Spread, held, v.Spreads()[got.Spread], tc.want)
			}
		})
	}
}
