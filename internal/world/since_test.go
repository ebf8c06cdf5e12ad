package world

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSelectorsOfNamespacesAreThoseOfTheSchedulersVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		kubelets []string
		want     bool
	}{
		"older":                 {[]string{"v1.35.4", "v1.36.3+k3s1"}, false},
		"one is new enough":     {[]string{"v1.35.4", "v1.37.0-eks-3abbec1"}, true},
		"newer":                 {[]string{"v1.38.2"}, true},
		"another major version": {[]string{"v2.0.0"}, true},
		"no version":            {[]string{"kwok", ""}, false},
		"no nodes":              {nil, false},
	} {
		w := &World{Nodes: map[string]*corev1.Node{}}
		for _, v := range tc.kubelets {
			w.Nodes[v] = &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: v}}}
		}
		if got := w.Compiler().ResolvesNamespaces; got != tc.want {
			t.Errorf("%s: kubelets %q: %t, want %t", name, tc.kubelets, got, tc.want)
		}
	}
}
