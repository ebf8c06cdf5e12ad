// Package recorded is a test cluster whose history is written by the metrics adapter's own recorder, in
// simulated time.
package recorded

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/history/recorder"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// repeat is the period after which the recorder writes everything again, the adapter's default. tick is the
// period at which it checks for changes.
const (
	repeat = 30 * time.Second
	tick   = 10 * time.Second
)

// Cluster is a modifiable cluster without an API server. Its methods are not safe for concurrent use.
type Cluster struct {
	t        testing.TB
	client   client.Client
	clock    *clocktesting.FakeClock
	recorder *recorder.Recorder
}

// Start returns a cluster without nodes at a time, whose history is written to a store.
func Start(t testing.TB, into storage.AppendableV2, at time.Time) *Cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, client: fake.NewClientBuilder().WithScheme(scheme).Build(), clock: clocktesting.NewFakeClock(at)}
	c.recorder = &recorder.Recorder{Cache: cached{&informertest.FakeInformers{Scheme: scheme}, c.client}, Store: into, Repeat: repeat, MostPods: 100, Clock: c.clock}
	return c
}

// cached reads from a client instead of informers.
type cached struct {
	*informertest.FakeInformers
	client client.Client
}

// List implements cache.Cache.
func (c cached) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return c.client.List(ctx, list)
}

// Until advances the time. Meanwhile the recorder writes changes within 10 s, and everything periodically.
func (c *Cluster) Until(at time.Time) {
	c.t.Helper()
	for c.clock.Now().Before(at) {
		c.clock.SetTime(earlier(c.clock.Now().Add(tick), at))
		if err := c.recorder.Record(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Add adds objects.
func (c *Cluster) Add(objects ...client.Object) {
	c.t.Helper()
	for _, o := range objects {
		testapi.Create(c.t, c.client, o)
	}
}

// Remove removes objects.
func (c *Cluster) Remove(objects ...client.Object) {
	c.t.Helper()
	for _, o := range objects {
		testapi.Delete(c.t, c.client, o)
	}
}

// Change changes a node.
func (c *Cluster) Change(name string, change func(*corev1.Node)) {
	c.t.Helper()
	var n corev1.Node
	testapi.Get(c.t, c.client, client.ObjectKey{Name: name}, &n)
	change(&n)
	testapi.Update(c.t, c.client, &n)
}

// Node returns a Ready node of a machine type with 4 cores and 8 GiB, of which 3.5 and 7 are allocatable.
// Without a type it has no label.
func Node(name, machineType string) *corev1.Node {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("10")}
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if machineType != "" {
		n.Labels = map[string]string{corev1.LabelInstanceTypeStable: machineType}
	}
	n.Status.Capacity, n.Status.Allocatable = list("4", "8Gi"), list("3500m", "7Gi")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// Pod returns a pod that runs on a node, requests cores and one GiB, and has an expected finish unless finish
// is zero.
func Pod(name, on, cpu string, finish time.Time) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.NodeName = on
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}}}
	p.Status.Phase = corev1.PodRunning
	if !finish.IsZero() {
		p.Annotations = map[string]string{v1alpha1.AnnotationExpectedFinish: finish.Format(time.RFC3339)}
	}
	return p
}
