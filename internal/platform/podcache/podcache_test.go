package podcache

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/test/fixtures"
)

// manager is a manager whose cache of pods has an informer, and whose client reads other pods.
type manager struct {
	cache.Cache
	client   client.Client
	informer cache.Informer
	err      error
}

func (m manager) GetClient() client.Client { return m.client }

func (m manager) GetCache() cache.Cache { return m }

func (m manager) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return m.informer, m.err
}

// informer is one that has read all pods, or not yet.
type informer struct {
	toolscache.SharedIndexInformer
	synced bool
}

func (i informer) HasSynced() bool { return i.synced }

// several is an informer of several namespaces, which has no store.
type several struct{ cache.Informer }

func storing(t *testing.T, synced bool, objects ...runtime.Object) informer {
	t.Helper()
	i := informer{toolscache.NewSharedIndexInformer(nil, &corev1.Pod{}, time.Hour, nil), synced}
	for _, o := range objects {
		if err := i.GetStore().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func TestPodsAreThoseOfTheCache(t *testing.T) {
	cached, other := fixtures.Pod("cached", 100, 1<<20), fixtures.Pod("other", 100, 1<<20)
	reader := fake.NewClientBuilder().WithObjects(other).Build()
	list := func(m manager) ([]*corev1.Pod, error) { return NewClient(m).SharedPods(t.Context()) }
	pods, err := list(manager{client: reader, informer: storing(t, true, cached)})
	if err != nil || len(pods) != 1 || pods[0] != cached {
		t.Errorf("the pods are %v (%v), want the cached one itself", pods, err)
	}
	for what, i := range map[string]cache.Informer{"has not been filled": storing(t, false, cached), "is of several namespaces": several{}} {
		if pods, err := list(manager{client: reader, informer: i}); err != nil || len(pods) != 1 || pods[0].Name != "other" {
			t.Errorf("a cache that %s: the pods are %v (%v), want those that the client lists", what, pods, err)
		}
	}
	if pods, err := list(manager{client: reader, informer: storing(t, true, fixtures.Node("a", 1000, 1<<30))}); err == nil {
		t.Errorf("the pods are %v, and the cache has a node", pods)
	}
	if _, err := list(manager{err: errors.New("no informer")}); err == nil {
		t.Error("there is no informer, and no error")
	}
}
