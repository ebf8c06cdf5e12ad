package operator

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Settled returns a handler that enqueues the same request for every event, after a delay in which further events can
// arrive. It is for controllers that reconcile everything together.
func Settled(request reconcile.Request, after time.Duration) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(request, after) },
		UpdateFunc:  func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(request, after) },
		DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(request, after) },
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { q.AddAfter(request, after) },
	}
}
