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

// Changes are the changes of objects that start rounds.
type Changes struct {
	// In is the cache that has the objects of these kinds.
	In    cache.Cache
	Kinds []client.Object
	// Apart reports whether the cache is of another cluster, which may be unreachable or lack the kinds for some time.
	// Until the cache watches them, only the interval of a fleet starts its rounds.
	Apart bool
}

// follow returns a source of the changes of objects of a kind in another cluster. source.Kind would stop the controller
// if that cluster is unreachable or lacks the kind. This source retries with exponential back-off from firstRetry to
// lastRetry.
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
			}) // Until fails only when ctx ends
		}()
		return nil
	})
}

// watch starts rounds at every change of objects of a kind. It does not wait until the cache has read them.
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
