package checkpointstaging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/plugins/checkpointstaging/stagingdecide"
	"supercargo.dev/supercargo/plugins/internal/client"
)

const resource = "migrations"

// errReading is the error for pods until Migrations have been read.
var errReading = errors.New("the cache of migrations has not synced yet; the pod is retried once it has")

// watcher reads and writes Migrations, and watches them from the first request for one. Until then it does nothing, so
// a scheduler without migrating pods works without the kind, and without permissions for it.
type watcher struct {
	ctx      context.Context
	handle   fwk.Handle
	notifier notifier
	pods     corelisters.PodLister
	// start creates and starts the client and the informer.
	start    func() error
	client   rest.Interface
	informer cache.SharedIndexInformer
	// trouble is the last error of the informer before it has synced.
	trouble atomic.Pointer[error]
}

// watchers holds one watcher for each client configuration, which the profiles of one scheduler share.
var watchers sync.Map // *rest.Config -> *watcher

// watched returns the watcher of a scheduler. It stops with the context.
func watched(ctx context.Context, handle fwk.Handle) *watcher {
	w := &watcher{ctx: ctx, handle: handle, pods: handle.SharedInformerFactory().Core().V1().Pods().Lister()}
	w.start = sync.OnceValue(w.begin)
	config := handle.KubeConfig()
	if config == nil {
		return w
	}
	shared, known := watchers.LoadOrStore(config, w)
	if !known {
		context.AfterFunc(ctx, func() { watchers.Delete(config) })
	}
	return shared.(*watcher)
}

// begin creates the client, and starts to watch Migrations and the deletion of pods.
func (w *watcher) begin() error {
	config := w.handle.KubeConfig()
	if config == nil {
		return errors.New("the scheduler has no API server to read migrations from")
	}
	var err error
	if w.client, err = client.New(config); err != nil {
		return fmt.Errorf("create a client for migrations: %w", err)
	}
	w.informer = cache.NewSharedIndexInformer(
		cache.NewListWatchFromClient(w.client, resource, metav1.NamespaceAll, fields.Everything()),
		&v1alpha1.Migration{}, 0, cache.Indexers{})
	// These fail only for a running informer.
	utilruntime.Must(w.informer.SetTransform(strip))
	utilruntime.Must(w.informer.SetWatchErrorHandlerWithContext(w.note))
	if _, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.changed(nil, obj.(*v1alpha1.Migration)) },
		UpdateFunc: func(old, obj any) { w.changed(old.(*v1alpha1.Migration), obj.(*v1alpha1.Migration)) },
		DeleteFunc: w.notify,
	}); err != nil {
		return fmt.Errorf("watch migrations: %w", err)
	}
	if _, err := w.handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) {
			if obj.(*corev1.Pod).DeletionTimestamp != nil {
				w.notify(obj)
			}
		},
		DeleteFunc: w.notify,
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	go w.informer.RunWithContext(w.ctx)
	go w.callWhenRead()
	return nil
}

// strip removes what the plugin does not read, so that thousands of ended migrations need little memory.
func strip(obj any) (any, error) {
	m, ok := obj.(*v1alpha1.Migration)
	if !ok {
		return obj, nil
	}
	m.ManagedFields, m.Annotations, m.Labels = nil, nil, nil
	m.Status.Conditions, m.Status.Measured = nil, nil
	if m.Status.Source != nil {
		m.Status.Source.Certificate, m.Status.Source.Requirements = "", ""
	}
	if m.Status.Target != nil {
		m.Status.Target.Certificate = ""
	}
	return m, nil
}

// note stores the error of the informer, for the messages of waiting pods.
func (w *watcher) note(ctx context.Context, r *cache.Reflector, err error) {
	w.trouble.Store(&err)
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

func (w *watcher) clearNominatedNode(ctx context.Context, pod *corev1.Pod) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"nominatedNodeName":null}}`, pod.UID)
	_, err := w.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod is gone
	}
	if err != nil {
		return fmt.Errorf("clear the nominated node of pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

func (w *watcher) cached(namespace, name string) (*v1alpha1.Migration, error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	if !w.informer.HasSynced() {
		return nil, w.unread()
	}
	obj, found, err := w.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !found {
		return nil, err
	}
	return obj.(*v1alpha1.Migration), nil
}

// unread returns why Migrations have not been read, and what to do about it.
func (w *watcher) unread() error {
	trouble := w.trouble.Load()
	if trouble == nil {
		return errReading
	}
	advice := "the scheduler retries"
	switch {
	case apierrors.IsNotFound(*trouble):
		advice = "install the CustomResourceDefinition migrations." + v1alpha1.GroupName
	case apierrors.IsForbidden(*trouble):
		advice = "allow the scheduler to get, list and watch migrations." + v1alpha1.GroupName + " and to patch migrations/status"
	}
	return fmt.Errorf("the scheduler cannot read migrations: %w: %s", *trouble, advice)
}

func (w *watcher) live(ctx context.Context, namespace, name string) (*v1alpha1.Migration, error) {
	m := &v1alpha1.Migration{}
	err := w.client.Get().Namespace(namespace).Resource(resource).Name(name).Do(ctx).Into(m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the migration: %w", err)
	}
	return m, nil
}

func (w *watcher) reserve(ctx context.Context, read *v1alpha1.Migration, r *v1alpha1.MigrationReservation) (*v1alpha1.Migration, error) {
	patch, err := json.Marshal(map[string]any{
		// The patch applies only to the version that was read: if the Migration, and so perhaps its order, has changed
		// since, the answer is a conflict.
		"metadata": map[string]any{"resourceVersion": read.ResourceVersion},
		"status":   map[string]any{"reservation": r}, // null removes it
	})
	if err != nil {
		return nil, err
	}
	m := &v1alpha1.Migration{}
	return m, w.client.Patch(types.MergePatchType).Namespace(read.Namespace).Resource(resource).Name(read.Name).
		SubResource("status").Body(patch).Do(ctx).Into(m)
}

func (w *watcher) subscribe(uids ...types.UID) (<-chan struct{}, func()) {
	return w.notifier.subscribe(uids)
}

func (w *watcher) pod(namespace, name string, uid types.UID) *corev1.Pod {
	pod, err := w.pods.Pods(namespace).Get(name)
	if err != nil || pod.UID != uid {
		return nil
	}
	return pod
}

// changed notifies the subscribers of the Migration, and activates its new pod if that may be placed now and could not
// before.
func (w *watcher) changed(before, after *v1alpha1.Migration) {
	w.notify(after)
	if after.Status.Plan == nil {
		return
	}
	pod, err := w.pods.Pods(after.Namespace).Get(after.Status.Plan.RestoredPod)
	if err == nil && pod.Spec.NodeName == "" && moves(pod) && stagingdecide.Reconsider(before, after, subject(pod)) {
		w.call(pod)
	}
}

// notify notifies the subscribers of the object.
func (w *watcher) notify(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if object, ok := obj.(metav1.Object); ok {
		w.notifier.notify(object.GetUID())
	}
}

// call activates unschedulable pods.
func (w *watcher) call(pods ...*corev1.Pod) {
	byKey := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		byKey[klog.KObj(pod).String()] = pod
	}
	w.handle.Activate(klog.FromContext(w.ctx), byKey)
}

// callWhenRead activates all new pods of migrations once Migrations have been read, because earlier attempts failed.
func (w *watcher) callWhenRead() {
	if !cache.WaitForCacheSync(w.ctx.Done(), w.informer.HasSynced) {
		return
	}
	w.trouble.Store(nil)
	moving, err := labels.NewRequirement(v1alpha1.LabelMigration, "exists", nil)
	utilruntime.Must(err)
	pods, err := w.pods.List(labels.NewSelector().Add(*moving))
	utilruntime.Must(err) // the lister of a cache never fails
	w.call(pods...)
}
