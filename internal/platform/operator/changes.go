package operator

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Changes signals that objects of some kinds have changed. Any number of changes since the last receive give one
// signal.
type Changes chan struct{}

// Note sends the signal.
func (c Changes) Note() {
	select {
	case c <- struct{}{}:
	default: // already signalled
	}
}

// Watch returns Changes that signal every change of objects of these kinds in the cache.
func Watch(ctx context.Context, in cache.Cache, kinds ...client.Object) (Changes, error) {
	c := make(Changes, 1)
	for _, kind := range kinds {
		informer, err := in.GetInformer(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.Note() }, UpdateFunc: func(any, any) { c.Note() }, DeleteFunc: func(any) { c.Note() },
		}); err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return c, nil
}
