package energyperformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/plugins/internal/client"
)

const resource = "machineprofiles"

// watcher watches the MachineProfiles of a cluster. Scheduling never waits for it: until the profiles have been read,
// or if the kind is not installed, no machine is known.
type watcher struct {
	handle  fwk.Handle
	set     atomic.Pointer[profile.Set]
	synced  func() bool            // reports whether all profiles have been processed; nil without an API server
	unread  atomic.Pointer[string] // why the profiles cannot be read
	logOnce sync.Once              // logs that the profiles cannot be read

	mu   sync.Mutex
	book profile.Book
	// early are the faults of profiles that existed at the start, by name, until Events may be recorded; nil from then
	// on.
	early map[string]fault
}

// fault is an invalid profile.
type fault struct {
	about *v1alpha1.MachineProfile
	err   error
}

// beginning is the time after the start during which no Events are recorded: they would be lost before the scheduler
// has created all plugins. It is far longer than that takes.
const beginning = 5 * time.Second

// watchers holds one watcher for each client configuration, which the profiles of one scheduler share.
var watchers sync.Map // *rest.Config -> *watcher

// watched returns the watcher of a scheduler and starts it. It stops with the context, and records no Events before the
// time beginning has passed. Without an API server, it knows no machines.
func watched(ctx context.Context, handle fwk.Handle, beginning time.Duration) (*watcher, error) {
	w := &watcher{handle: handle, early: map[string]fault{}}
	w.set.Store(&profile.Set{})
	config := handle.KubeConfig()
	if config == nil {
		return w, nil
	}
	shared, known := watchers.LoadOrStore(config, w)
	if known {
		return shared.(*watcher), nil
	}
	context.AfterFunc(ctx, func() { watchers.Delete(config) })
	reader, err := client.New(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for machine profiles: %w", err)
	}
	return w, w.follow(ctx, beginning, cache.NewListWatchFromClient(reader, resource, metav1.NamespaceNone, fields.Everything()))
}

// follow starts to watch profiles.
func (w *watcher) follow(ctx context.Context, beginning time.Duration, source cache.ListerWatcher) error {
	informer := cache.NewSharedIndexInformer(source, &v1alpha1.MachineProfile{}, 0, cache.Indexers{})
	// It fails only for a running informer.
	utilruntime.Must(informer.SetWatchErrorHandlerWithContext(w.note))
	handling, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { w.put(obj.(*v1alpha1.MachineProfile)) },
		UpdateFunc: func(old, obj any) {
			if before, now := old.(*v1alpha1.MachineProfile), obj.(*v1alpha1.MachineProfile); before.ResourceVersion != now.ResourceVersion {
				w.put(now)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if o, ok := obj.(*v1alpha1.MachineProfile); ok {
				w.drop(o.Name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch machine profiles: %w", err)
	}
	w.synced = handling.HasSynced
	time.AfterFunc(beginning, func() {
		if ctx.Err() == nil {
			w.begin()
		}
	})
	go informer.RunWithContext(ctx)
	return nil
}

// reading returns why the profiles cannot be read, or empty once they have been. It returns false while neither is
// known.
func (w *watcher) reading() (why string, done bool) {
	if w.synced == nil {
		return "there is no API server to read MachineProfiles from", true
	}
	if w.synced() {
		return "", true
	}
	if unread := w.unread.Load(); unread != nil {
		return *unread, true
	}
	return "", false
}

// Machines returns what is known now.
func (w *watcher) Machines() profile.Set { return *w.set.Load() }

// put adds a new or changed profile. If it is invalid, put records an Event.
func (w *watcher) put(o *v1alpha1.MachineProfile) {
	w.mu.Lock()
	err := w.book.Put(o)
	set := w.book.Set()
	w.set.Store(&set)
	wait := w.early != nil
	delete(w.early, o.Name)
	if wait && err != nil {
		w.early[o.Name] = fault{o, err}
	}
	w.mu.Unlock()
	if err != nil && !wait {
		w.report(fault{o, err})
	}
}

// begin records Events of the profiles that were invalid at the start and still are.
func (w *watcher) begin() {
	w.mu.Lock()
	early := w.early
	w.early = nil
	w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(early)) {
		w.report(early[name])
	}
}

func (w *watcher) report(f fault) {
	about := f.about.DeepCopy()
	about.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MachineProfile")) // lists omit it
	w.handle.EventRecorder().Eventf(about, nil, corev1.EventTypeWarning, v1alpha1.SchedulingReasonInvalidMachineProfile, v1alpha1.ActionScheduling,
		"%v; the profile is ignored, and nodes of machine type %q get a neutral score unless another profile exists", f.err, about.Spec.MachineType)
}

func (w *watcher) drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book.Drop(name)
	delete(w.early, name)
	set := w.book.Set()
	w.set.Store(&set)
}

// note logs once why profiles cannot be read and what to do about it. It leaves transient errors to the default
// handler.
func (w *watcher) note(ctx context.Context, r *cache.Reflector, err error) {
	advice := ""
	switch {
	case apierrors.IsNotFound(err):
		advice = "install the CustomResourceDefinition " + resource + "." + v1alpha1.GroupName
	case apierrors.IsForbidden(err):
		advice = "allow the scheduler to get, list and watch " + resource + "." + v1alpha1.GroupName
	default:
		cache.DefaultWatchErrorHandler(ctx, r, err)
		return
	}
	why := "MachineProfiles cannot be read: " + advice
	w.unread.Store(&why)
	w.logOnce.Do(func() {
		klog.FromContext(ctx).Info("Failed to read MachineProfiles; all nodes get a neutral score until they can be read", "plugin", Name, "err", err, "advice", advice)
	})
}
