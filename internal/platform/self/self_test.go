package self

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAProgramIsItsPodOrElseOnItsNode(t *testing.T) {
	pod := map[string]string{EnvName: "scheduler-7d", EnvNamespace: "kube-system", EnvUID: "u-1"}
	tests := []struct {
		name string
		env  map[string]string
		host string
		want corev1.ObjectReference
	}{
		{"in a pod", pod, "h", corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "kube-system", Name: "scheduler-7d", UID: "u-1"}},
		{"a name alone could be in any namespace", map[string]string{EnvName: "scheduler-7d"}, "h", corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "h", UID: "h"}},
		{"outside a pod, nodes have names in lower case", nil, "Rack1-1 ", corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "rack1-1", UID: "rack1-1"}},
		{"nobody knows", nil, "", corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "localhost", UID: "localhost"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			hostname := func() (string, error) {
				if tc.host == "" {
					return "", errors.New("no name")
				}
				return tc.host, nil
			}
			if got := object(func(name string) string { return tc.env[name] }, hostname); *got != tc.want {
				t.Errorf("%+v, want %+v", *got, tc.want)
			}
		})
	}
}
