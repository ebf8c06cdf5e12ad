package fleet

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// returning is the cache of a cluster that cannot be reached at first, and its informers.
type returning struct {
	cache.Cache
	controllertest.FakeInformer
	failures int
	handled  chan struct{} // closed with the first handler
}

func (c *returning) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	if c.failures--; c.failures >= 0 {
		return nil, errors.New("connection refused")
	}
	return informer{&c.FakeInformer, c.handled}, nil
}

type informer struct {
	*controllertest.FakeInformer
	handled chan struct{}
}

func (i informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	defer close(i.handled)
	return i.FakeInformer.AddEventHandler(handler)
}

// TestChangesInAnotherClusterStartRoundsOnceItIsThere: it is asked again until it answers.
func TestChangesInAnotherClusterStartRoundsOnceItIsThere(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	fleet := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(fleet).Build()}
	c := &returning{failures: 1, handled: make(chan struct{})}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	if err := r.follow(c, &clusterv1.Machine{}).Start(t.Context(), q); err != nil {
		t.Fatalf("the controller would end: %v", err)
	}
	<-c.handled
	c.Add(&clusterv1.Machine{})
	if request, _ := q.Get(); request.Name != "batch" {
		t.Errorf("a change starts a round of %q", request.Name)
	}
}
