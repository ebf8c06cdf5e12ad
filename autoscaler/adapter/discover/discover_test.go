package discover

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
)

// cached reads from a client instead of informers.
type cached struct {
	*informertest.FakeInformers
	client client.Client
}

func (c cached) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return c.client.List(ctx, list)
}

var scrape = map[string]string{target.ScrapeAnnotation: "true"}

func pod(name, ip string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: scrape}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip}
	return p
}

// watcher returns a Watcher of a cluster that can be changed.
func watcher(t *testing.T, objects ...client.Object) (*Watcher, client.Client, *informertest.FakeInformers) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	informers := &informertest.FakeInformers{Scheme: scheme}
	return &Watcher{Cache: cached{informers, c}, Pods: true, Services: true, Clock: clock.RealClock{},
		Limits: target.Limits{Most: 10, MinInterval: time.Second, MaxInterval: time.Minute}}, c, informers
}

func addresses(targets []target.Target) []string {
	var all []string
	for _, t := range targets {
		all = append(all, t.Job+" "+t.Address)
	}
	return all
}

func TestWhatIsGivenComesBeforeWhatAnnouncesItself(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: scrape}}
	ends := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}}}, Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(80))}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.3"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	w, _, _ := watcher(t, pod("a", "10.0.0.1"), service, ends, node)
	w.Fixed = []target.Target{{Job: "fixed", Address: "db:1"}}
	for _, c := range []struct {
		pods, services, kubelets bool
		want                     []string
	}{
		{true, true, true, []string{"fixed db:1", "pods 10.0.0.1:80", "services 10.0.0.9:80", "kubelets 10.0.0.3:10250"}},
		{true, false, false, []string{"fixed db:1", "pods 10.0.0.1:80"}},
		{false, true, false, []string{"fixed db:1", "services 10.0.0.9:80"}},
		{false, false, true, []string{"fixed db:1", "kubelets 10.0.0.3:10250"}},
		{false, false, false, []string{"fixed db:1"}},
	} {
		w.Pods, w.Services, w.Kubelets = c.pods, c.services, c.kubelets
		found, err := w.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, addresses(found.Targets)); diff != "" {
			t.Errorf("pods %v, services %v (-want +got):\n%s", c.pods, c.services, diff)
		}
	}
}

func TestTargetsAreSentWhenTheyChangeAndOnlyThen(t *testing.T) {
	w, c, informers := watcher(t, pod("a", "10.0.0.1"))
	if err := w.Register(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, done := make(chan []target.Target), make(chan error, 1)
	go func() { done <- w.Run(ctx, changes) }()
	next := func() []string {
		t.Helper()
		select {
		case targets := <-changes:
			return addresses(targets)
		case <-time.After(30 * time.Second):
			t.Fatal("nothing is sent")
			return nil
		}
	}
	if diff := cmp.Diff([]string{"pods 10.0.0.1:80"}, next()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	// The first event changes no target; the second does.
	informer, err := informers.FakeInformerFor(ctx, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	informer.Update(pod("a", "10.0.0.1"), pod("a", "10.0.0.1"))
	added := pod("b", "10.0.0.2")
	if err := c.Create(ctx, added); err != nil {
		t.Fatal(err)
	}
	informer.Add(added)
	if diff := cmp.Diff([]string{"pods 10.0.0.1:80", "pods 10.0.0.2:80"}, next()); diff != "" {
		t.Errorf("when one has come (-want +got):\n%s", diff)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
