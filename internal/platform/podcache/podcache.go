// Package podcache lets controllers read the pods of their manager's cache without copying them. The client of a manager
// can only list pods into a PodList, which has a copy of each.
package podcache

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client is a client that reads from a cache and shares the pods of the cache.
type Client struct {
	client.Client
	informers cache.Informers
}

// NewClient returns a client of a manager that shares the pods of the manager's cache.
func NewClient(m interface {
	GetClient() client.Client
	GetCache() cache.Cache
}) Client {
	return Client{m.GetClient(), m.GetCache()}
}

// SharedPods returns all pods of the cache, in any order. Callers must not change them. A cache that
// does not give access to its store, such as one of several namespaces, has them copied.
func (c Client) SharedPods(ctx context.Context) ([]*corev1.Pod, error) {
	informer, err := c.informers.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	shared, is := informer.(interface{ GetStore() toolscache.Store })
	if !is || !informer.HasSynced() { // before its start, a cache refuses to be read
		return c.copied(ctx)
	}
	stored := shared.GetStore().List()
	pods := make([]*corev1.Pod, len(stored))
	for i, o := range stored {
		pod, is := o.(*corev1.Pod)
		if !is {
			return nil, fmt.Errorf("the cache of pods contains %T", o)
		}
		pods[i] = pod
	}
	return pods, nil
}

// copied returns copies of all pods.
func (c Client) copied(ctx context.Context) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}
