package agent

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// watch enqueues the Migrations that concern this agent, until ctx ends.
func (a *Agent) watch(ctx context.Context) error {
	for _, entry := range a.ledger.All() {
		a.queue.Add(types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.nodes.watch(ctx) })
	group.Go(func() error { return a.resync(ctx) })
	for _, selector := range a.selectors() {
		group.Go(func() error { return a.watchMigrations(ctx, selector) })
	}
	return group.Wait()
}

// selectors selects the Migrations. The agent of one node receives only its own; a simulation
// receives all.
func (a *Agent) selectors() []fields.Selector {
	if a.Simulation != nil {
		return []fields.Selector{fields.Everything()}
	}
	return []fields.Selector{
		fields.OneTermEqualSelector("status.plan.sourceNode", a.Node),
		fields.OneTermEqualSelector("status.reservation.node", a.Node),
	}
}

func (a *Agent) watchMigrations(ctx context.Context, selector fields.Selector) error {
	enqueue := func(obj any) {
		key, err := cache.DeletionHandlingObjectToName(obj)
		if err != nil {
			a.Log.Error(err, "Failed to get the name of a Migration")
			return
		}
		a.queue.Add(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: a.lister(&v1alpha1.MigrationList{}, client.MatchingFieldsSelector{Selector: selector}),
		ObjectType:    &v1alpha1.Migration{},
		Transform:     onlyMetadata,
		// A Migration that no longer matches is reported as deleted. The worker reads it live.
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue},
	})
	a.health.follows(informer.HasSynced)
	informer.RunWithContext(ctx)
	return ctx.Err()
}

// onlyMetadata keeps only the fields that the informer needs to tell versions apart: the rest is
// read live.
func onlyMetadata(obj any) (any, error) {
	m, ok := obj.(*v1alpha1.Migration)
	if !ok {
		return obj, nil
	}
	return &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
	}}, nil
}

// lister lists and watches, and reports the results to health.
func (a *Agent) lister(list client.ObjectList, options ...client.ListOption) cache.ListerWatcher {
	with := func(o metav1.ListOptions) *client.ListOptions {
		all := &client.ListOptions{Raw: &o}
		return all.ApplyOptions(options)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			fresh, ok := list.DeepCopyObject().(client.ObjectList)
			if !ok {
				return nil, fmt.Errorf("%T is not a list", list)
			}
			return fresh, a.health.recordAccess(ctx, a.api.List(ctx, fresh, with(o)))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := a.api.Watch(ctx, list, with(o))
			return w, a.health.recordAccess(ctx, err)
		},
	}
}

// resync periodically enqueues all Migrations of the ledger, because containers end without an
// update of their Migration.
func (a *Agent) resync(ctx context.Context) error {
	ticker := a.Clock.NewTicker(a.Resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
		a.health.resynced(a.Clock.Now())
		for _, entry := range a.ledger.All() {
			a.queue.Add(types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name})
		}
	}
}

// requeueAll enqueues all Migrations, after a new node joined the simulation.
func (a *Agent) requeueAll(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MigrationList"))
	if err := a.api.List(ctx, list); err != nil {
		return fmt.Errorf("list Migrations: %w", err)
	}
	return meta.EachListItem(list, func(obj runtime.Object) error {
		item, err := meta.Accessor(obj)
		if err == nil {
			a.queue.Add(types.NamespacedName{Namespace: item.GetNamespace(), Name: item.GetName()})
		}
		return err
	})
}

// isNode reports whether a Node is one of the agent's.
func (a *Agent) isNode(node *corev1.Node) bool {
	if a.Simulation != nil {
		return a.Simulation.Selector.Matches(labelSet(node.Labels))
	}
	return node.Name == a.Node
}
