package dashboard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/cli/dashboard/connection"
)

// followed is a watched kind.
type followed struct {
	link     *Link
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	about   connection.Kind
	refusal error // the last refusal of a list or watch; nil if it was not refused
}

func newFollowed(l *Link, about connection.Kind, object client.Object, list func() client.ObjectList, selector string, touch func()) *followed {
	f := &followed{link: l, about: about}
	raw := func(o metav1.ListOptions) *client.ListOptions {
		o.FieldSelector = selector
		return &client.ListOptions{Raw: &o}
	}
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if err := f.begin(ctx); err != nil {
				return nil, err
			}
			l := list()
			err := f.link.client.List(ctx, l, raw(o))
			f.listed(time.Now(), err)
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if err := f.begin(ctx); err != nil {
				return nil, err
			}
			w, err := f.link.client.Watch(ctx, list(), raw(o))
			f.watched(time.Now(), err)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				f.delivered(time.Now(), e)
				return e, true
			}), nil
		},
	}
	f.informer = cache.NewSharedIndexInformerWithOptions(lister, object, cache.SharedIndexInformerOptions{})
	must(f.informer.SetTransform(strip))
	// The page shows errors; the informer retries.
	must(f.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) { touch() }))
	_, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { touch() }, UpdateFunc: func(any, any) { touch() }, DeleteFunc: func(any) { touch() },
	})
	must(err)
	return f
}

// must panics on errors that are only possible after an informer has started.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// begin notes that the kind is not watched, and waits until the API server answers.
func (f *followed) begin(ctx context.Context) error {
	f.mu.Lock()
	if f.about.Broken.IsZero() {
		f.about.Broken = time.Now()
	}
	f.mu.Unlock()
	return f.link.wait(ctx)
}

func (f *followed) listed(now time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about.List = connection.Failed(err)
	f.note(now, err)
}

func (f *followed) watched(now time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about.Watch = connection.Failed(err)
	f.note(now, err)
	if err == nil {
		f.about.Broken, f.about.List = time.Time{}, connection.Failure{} // a watch may have made the list needless
	}
}

// note notes what a list or a watch has in common.
func (f *followed) note(now time.Time, err error) {
	switch connection.Failed(err).Kind {
	case connection.FailureNone:
		f.about.Fresh, f.refusal = now, nil
	case connection.Forbidden, connection.Unauthorized:
		f.refusal = err
	case connection.NotInstalled:
	default:
		f.link.suspect()
	}
}

// delivered notes an event of a watch.
func (f *followed) delivered(now time.Time, e watch.Event) {
	if e.Type == watch.Error {
		return // the informer lists again
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about.Fresh = now
	if e.Type == watch.Bookmark && !endsInitialEvents(e.Object) {
		f.about.Bookmarked = true
	}
}

// endsInitialEvents reports whether a bookmark is the one after the objects that exist when a watch begins.
func endsInitialEvents(o runtime.Object) bool {
	about, err := meta.Accessor(o)
	return err == nil && about.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// observe returns what is known about the kind.
func (f *followed) observe() connection.Kind {
	read := f.informer.HasSynced()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about.Read = read
	return f.about
}

// refused returns an error if the kind may not be read.
func (f *followed) refused() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.about.List.Kind == connection.FailureNone || f.refusal == nil {
		return nil
	}
	return fmt.Errorf("permission missing: the dashboard must list and watch %s: %w", f.about.Resource, f.refusal)
}
