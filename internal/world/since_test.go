package world

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestConstraintsAreThoseOfTheSchedulersVersion has nodes with kubelets of several versions.
func TestConstraintsAreThoseOfTheSchedulersVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		kubelets          []string
		resolves, spreads bool
	}{
		"older":                 {[]string{"v1.35.4", "v1.36.3+k3s1"}, false, false},
		"one is new enough":     {[]string{"v1.35.4", "v1.37.0-eks-3abbec1"}, true, false},
		"newer":                 {[]string{"v1.38.2"}, true, true},
		"a beta":                {[]string{"v1.38.0-beta.0"}, true, true},
		"another major version": {[]string{"v2.0.0"}, true, true},
		"no version":            {[]string{"kwok", ""}, false, false},
		"no nodes":              {nil, false, false},
	} {
		w := &World{Nodes: map[string]*corev1.Node{}}
		for _, v := range tc.kubelets {
			w.Nodes[v] = &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: v}}}
		}
		c := w.Compiler()
		if c.ResolvesNamespaces != tc.resolves {
			t.Errorf("%s: kubelets %q: ResolvesNamespaces is %t", name, tc.kubelets, c.ResolvesNamespaces)
		}
		if c.SpreadsAmongAll != tc.spreads {
			t.Errorf("%s: kubelets %q: SpreadsAmongAll is %t", name, tc.kubelets, c.SpreadsAmongAll)
		}
	}
}
