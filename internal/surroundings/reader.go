package surroundings

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader is a [Source] that reads from the API server or from caches.
type Reader struct {
	// Owners reads the controllers of pods.
	Owners client.Reader
	// Claims reads their claims. Few pods that move have one, so callers need not cache them.
	Claims client.Reader
	// Lists lists Services and nodes. They may share memory with a cache.
	Lists client.Reader
}

var _ Source = Reader{}

// ReadAll returns a source that reads everything with one reader.
func ReadAll(from client.Reader) Reader { return Reader{Owners: from, Claims: from, Lists: from} }

// Job implements [Source].
func (r Reader) Job(ctx context.Context, namespace, name string) (*batchv1.Job, error) {
	return Get(ctx, r.Owners, namespace, name, &batchv1.Job{})
}

// ReplicaSet implements [Source].
func (r Reader) ReplicaSet(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
	return Get(ctx, r.Owners, namespace, name, &appsv1.ReplicaSet{})
}

// Claim implements [Source].
func (r Reader) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return Get(ctx, r.Claims, namespace, name, &corev1.PersistentVolumeClaim{})
}

// Services implements [Source].
func (r Reader) Services(ctx context.Context, namespace string) ([]corev1.Service, error) {
	var services corev1.ServiceList
	if err := r.Lists.List(ctx, &services, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Services of namespace %s: %w", namespace, err)
	}
	return services.Items, nil
}

// NodesFor returns all nodes.
func (r Reader) NodesFor(ctx context.Context, _ *corev1.Pod) (map[string]*corev1.Node, error) {
	var nodes corev1.NodeList
	if err := r.Lists.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	all := make(map[string]*corev1.Node, len(nodes.Items))
	for i := range nodes.Items {
		all[nodes.Items[i].Name] = &nodes.Items[i]
	}
	return all, nil
}

// Get reads an object; nil if it does not exist.
func Get[T client.Object](ctx context.Context, reader client.Reader, namespace, name string, object T) (T, error) {
	var none T
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return none, fmt.Errorf("read %T %s: %w", object, client.ObjectKey{Namespace: namespace, Name: name}, err)
	case err != nil:
		return none, nil
	}
	return object, nil
}
