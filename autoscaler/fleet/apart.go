package fleet

import (
	"context"
	"math"

	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Changes are changes of objects that start rounds.
type Changes struct {
	// In is a cache that has objects of these kinds.
	In    cache.Cache
	Kinds []client.Object
	// Apart reports that the cache is of another cluster, which may be unreachable or lack the kinds for now. Until
	// their changes are seen, rounds start by their interval.
	Apart bool
}

// follow returns a source of the changes of objects of a kind in another cluster. source.Kind would end the controller
// while that cluster cannot be reached or lacks the kind; this asks again, at first after firstRetry, and then after
// twice the time, up to lastRetry.
func (r *Reconciler) follow(in cache.Cache, object client.Object) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		again := wait.Backoff{Duration: firstRetry, Factor: 2, Cap: lastRetry, Steps: math.MaxInt}
		go func() {
			_ = again.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
				err := r.watch(ctx, in, object, q)
				if err != nil {
					log.FromContext(ctx).Info("Cannot watch the cluster that has the MachineDeployments; trying again", "reason", err.Error())
				}
				return err == nil, nil
			}) // it fails only when ctx ends
		}()
		return nil
	})
}

// watch makes every change of objects of a kind start rounds, once the cache has read them.
func (r *Reconciler) watch(ctx context.Context, in cache.Cache, object client.Object, q queue) error {
	informer, err := in.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.enqueueEvery(ctx, q) }, UpdateFunc: func(any, any) { r.enqueueEvery(ctx, q) }, DeleteFunc: func(any) { r.enqueueEvery(ctx, q) },
	})
	return err
}
