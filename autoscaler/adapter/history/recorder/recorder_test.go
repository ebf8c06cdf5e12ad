package recorder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/test/kit/testapi"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// node returns a Ready node with 3.5 allocatable cores.
func node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// pod returns a pod that runs on a node and requests CPU.
func pod(name, on, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	p.Spec.NodeName = on
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	p.Status.Phase = corev1.PodRunning
	return p
}

// recorder returns a Recorder of a cluster that can be changed, and its store.
func recorder(t *testing.T, objects ...client.Object) (*Recorder, client.Client, *store.Store, *clocktesting.FakeClock) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	o := store.Defaults()
	o.Dir = t.TempDir()
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	clock := clocktesting.NewFakeClock(noon)
	return &Recorder{Cache: cached{&informertest.FakeInformers{Scheme: scheme}, c}, Store: s, Repeat: 30 * time.Second, MostPods: 3, Clock: clock}, c, s, clock
}

// cached reads from a client instead of informers.
type cached struct {
	*informertest.FakeInformers
	client client.Client
}

func (c cached) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return c.client.List(ctx, list)
}

// at returns the sorted result of a query at a time.
func at(t *testing.T, s *store.Store, expression string, when time.Time) string {
	t.Helper()
	found, err := s.Query(t.Context(), expression, when)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, sample := range found {
		all = append(all, fmt.Sprintf("%s=%v", sample.Labels["node"], sample.Value))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestChangesAreWrittenAndWhatHasGoneEnds(t *testing.T) {
	r, c, s, clock := recorder(t, node("a"), node("b"), pod("1", "a", "1"))
	record := func() {
		t.Helper()
		if err := r.Record(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	record()
	clock.Step(time.Second)
	moved := pod("2", "b", "2")
	testapi.Create(t, c, moved)
	record()
	clock.Step(time.Second)
	testapi.Delete(t, c, node("a"))
	record()
	const free = `supercargo_node_available{resource="cpu"}`
	for second, want := range []string{"a=2.5 b=3.5", "a=2.5 b=1.5", "b=1.5"} {
		if got := at(t, s, free, noon.Add(time.Duration(second)*time.Second)); got != want {
			t.Errorf("after %d s %s are free, want %s", second, got, want)
		}
	}
	if got := at(t, s, `count_over_time(supercargo_node_available{resource="cpu"}[1m])`, noon.Add(2*time.Second)); got != "a=1 b=2" {
		t.Errorf("%s samples were written, want one for each change", got)
	}
}

func TestTheSeriesOfAPodEndWithItAndWhenThereAreTooMany(t *testing.T) {
	r, c, s, clock := recorder(t, node("a"), pod("1", "a", "1"), pod("2", "a", "2"))
	after := func(what, want string, change func() error) {
		t.Helper()
		clock.Step(time.Second)
		if err := errors.Join(change(), r.Record(t.Context())); err != nil {
			t.Fatal(err)
		}
		for expression, want := range map[string]string{"count(supercargo_pod_requested) or vector(0)": want, "supercargo_node_ready": "a=1"} {
			if got := strings.TrimPrefix(at(t, s, expression, clock.Now()), "="); got != want {
				t.Errorf("%s: %s is %s, want %s", what, expression, got, want)
			}
		}
	}
	after("at first", "2", func() error { return nil })
	after("one has gone", "1", func() error { return c.Delete(t.Context(), pod("1", "a", "1")) })
	after("as many as may be", "3", func() error {
		return errors.Join(c.Create(t.Context(), pod("3", "a", "1")), c.Create(t.Context(), pod("4", "a", "1")))
	})
	after("one more", "0", func() error { return c.Create(t.Context(), pod("5", "a", "1")) })
	after("one less again", "3", func() error { return c.Delete(t.Context(), pod("5", "a", "1")) })
}

func TestWhatDoesNotChangeIsWrittenNowAndThenSoThatQueriesFindIt(t *testing.T) {
	r, _, s, clock := recorder(t, node("a"))
	for range 100 {
		if err := r.Record(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Second)
	}
	if got := at(t, s, "count_over_time(supercargo_node_ready[10m])", noon.Add(100*time.Second)); got != "a=4" {
		t.Errorf("in 100 s it was written %s times, want 4, at 0, 30, 60 and 90 s", got)
	}
	if got := at(t, s, "supercargo_node_ready", noon.Add(100*time.Second)); got != "a=1" {
		t.Errorf("it is not found: %q", got)
	}
}

func TestWhatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	r, _, s, clock := recorder(t, node("a"))
	if err := r.Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(noon.Add(-8 * 24 * time.Hour)) // the clock was set back by more than the store accepts
	r.nodes.full = time.Time{}
	if err := r.Record(t.Context()); err == nil || !strings.Contains(err.Error(), "node a") {
		t.Errorf("samples of the past: error %v, want one that names the node", err)
	}
	clock.SetTime(noon.Add(time.Second))
	if err := r.Record(t.Context()); err != nil {
		t.Errorf("it does not recover: %v", err)
	}
	if got := at(t, s, "count_over_time(supercargo_node_ready[1m])", noon.Add(time.Second)); got != "a=2" {
		t.Errorf("it was written %s times, want 2", got)
	}
}
