package fleetsite

import (
	"reflect"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

func pod(name, node string) *corev1.Pod {
	p := Pod("team", name, 100, 100)
	RunsOn(p, node, time.Unix(0, 0))
	return p
}

// on returns the names of the pods on a node as the server lists them, or of all pods.
func on(t *testing.T, s *Server, opts ...client.ListOption) (names []string) {
	t.Helper()
	var list corev1.PodList
	if err := (Live{s}).List(t.Context(), &list, opts...); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func newServer(t *testing.T, all ...client.Object) *Server {
	t.Helper()
	s, err := NewServer()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(all...); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPodsAreFoundByTheirNode after each change.
func TestPodsAreFoundByTheirNode(t *testing.T) {
	s := newServer(t, pod("p", "a"), pod("q", "b"), pod("r", "a"))
	at := func(node string) client.ListOption { return client.MatchingFields{"spec.nodeName": node} }
	for _, step := range []struct {
		what      string
		do        func() error
		a, b, all []string
	}{
		{"first", func() error { return nil }, []string{"p", "r"}, []string{"q"}, []string{"p", "q", "r"}},
		{"p moves", func() error { return s.Replace(pod("p", ""), pod("p", "b")) }, []string{"r"}, []string{"p", "q"}, []string{"p", "q", "r"}},
		{"p becomes s", func() error { return s.Replace(pod("p", ""), pod("s", "a")) }, []string{"s", "r"}, []string{"q"}, []string{"s", "q", "r"}},
		{"s goes", func() error { return s.Remove(pod("s", "")) }, []string{"r"}, []string{"q"}, []string{"r", "q"}},
		{"r goes", func() error { return s.Remove(pod("r", "")) }, nil, []string{"q"}, []string{"q"}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if a, b, all := on(t, s, at("a")), on(t, s, at("b")), on(t, s); !reflect.DeepEqual(a, step.a) || !reflect.DeepEqual(b, step.b) || !reflect.DeepEqual(all, step.all) {
			t.Errorf("%s: %v on a, %v on b, %v in all, want %v, %v, %v", step.what, a, b, all, step.a, step.b, step.all)
		}
	}
	if s.Add(pod("q", "a")) == nil || s.Remove(pod("p", "")) == nil || s.Replace(pod("p", ""), pod("x", "")) == nil {
		t.Error("a pod is added twice, or one that does not exist is changed")
	}
}

// TestWritesThatWouldStartSomethingAreTold: evictions, and new numbers of machines.
func TestWritesThatWouldStartSomethingAreTold(t *testing.T) {
	s := newServer(t)
	f := &catalogue.Flavor{Flavor: cluster.Flavor{Name: "small"}}
	if err := s.AddDeployment(f, "us-east-1a", 2); err != nil {
		t.Fatal(err)
	}
	var evicted, scaled string
	s.Evicted = func(pod client.ObjectKey) { evicted = pod.String() }
	s.Scaled = func(d client.ObjectKey, replicas int) {
		scaled = d.String()
		if err := s.SetReplicas(d.Name, replicas); err != nil {
			t.Error(err)
		}
	}
	c := Cached{Server: s}
	if err := c.SubResource("eviction").Create(t.Context(), pod("p", "a"), &policyv1.Eviction{}); err != nil || evicted != "team/p" {
		t.Errorf("evicted %q: %v", evicted, err)
	}
	d := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: Machines, Name: "small"}}
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/spec","value":{"replicas":2}},{"op":"replace","path":"/spec","value":{"replicas":5}}]`))
	if err := c.SubResource("scale").Patch(t.Context(), d, patch); err != nil || scaled != "machines/small" {
		t.Errorf("scaled %q: %v", scaled, err)
	}
	var scale autoscalingv1.Scale
	if err := c.SubResource("scale").Get(t.Context(), d, &scale); err != nil || scale.Spec.Replicas != 5 {
		t.Errorf("it has %d machines: %v", scale.Spec.Replicas, err)
	}
	if s.Sent() != 3 || s.Evictions.Load() != 1 {
		t.Errorf("%d requests and %d evictions", s.Sent(), s.Evictions.Load())
	}
}
