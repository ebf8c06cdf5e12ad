package class

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(label, ownerKind string) *corev1.Pod {
	p := &corev1.Pod{}
	if label != "-" {
		p.Labels = map[string]string{"supercargo.dev/class": label}
	}
	if ownerKind != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: ownerKind, Controller: &yes}}
	}
	return p
}

func TestClassOfPod(t *testing.T) {
	tests := []struct {
		name, label, owner string
		want               Class
		wantErr            string
	}{
		{"a bare pod is a service", "-", "", Service, ""},
		{"a pod of a ReplicaSet is a service", "-", "ReplicaSet", Service, ""},
		{"a pod of a Job is batch", "-", "Job", Batch, ""},
		{"the label wins over the owner", "service", "Job", Service, ""},
		{"a bare pod can be batch", "batch", "", Batch, ""},
		{"no pod is of any class", "any", "", Service, `must be "batch" or "service"`},
		{"a misspelt label leaves the default", "Batch", "Job", Batch, `supercargo.dev/class="Batch"`},
		{"an empty label is not a class", "", "", Service, `=""`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := OfPod(pod(tc.label, tc.owner))
			if got != tc.want {
				t.Errorf("class %q, want %q", got, tc.want)
			}
			checkError(t, err, tc.wantErr)
		})
	}
}

func TestClassOfNode(t *testing.T) {
	tests := []struct {
		name    string
		labels  map[string]string
		want    Class
		wantErr string
	}{
		{"a node without labels has the default", nil, Any, ""},
		{"batch", map[string]string{"supercargo.dev/class": "batch"}, Batch, ""},
		{"service", map[string]string{"supercargo.dev/class": "service"}, Service, ""},
		{"any", map[string]string{"supercargo.dev/class": "any"}, Any, ""},
		{"a misspelt label leaves the default", map[string]string{"supercargo.dev/class": "bach"}, Any, `must be "batch", "service" or "any"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := OfNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}, Any)
			if got != tc.want {
				t.Errorf("class %q, want %q", got, tc.want)
			}
			checkError(t, err, tc.wantErr)
		})
	}
}

func TestMachinesTakeTheirOwnClassAndAnyTakesBoth(t *testing.T) {
	tests := []struct {
		node, pod Class
		want      bool
	}{
		{Any, Batch, true}, {Any, Service, true},
		{Batch, Batch, true}, {Batch, Service, false},
		{Service, Batch, false}, {Service, Service, true},
	}
	for _, tc := range tests {
		if got := tc.node.Takes(tc.pod); got != tc.want {
			t.Errorf("a %s machine takes a %s pod: %t, want %t", tc.node, tc.pod, got, tc.want)
		}
	}
}

func TestPodsOfDaemonSetsAndOfKubeletsBelongOnEveryNode(t *testing.T) {
	for owner, want := range map[string]bool{"": false, "Job": false, "ReplicaSet": false, "DaemonSet": true, "Node": true} {
		for _, label := range []string{"-", "batch", "service"} {
			if got := EveryNode(pod(label, owner)); got != want {
				t.Errorf("owner %q, label %q: %t, want %t", owner, label, got, want)
			}
		}
	}
	mentioned := pod("-", "Node")
	mentioned.OwnerReferences[0].Controller = nil // an owner reference that only ties the pod's life to the node's
	if EveryNode(mentioned) {
		t.Error("a pod with a node among its owners, but not controlled by it, belongs on every node")
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
