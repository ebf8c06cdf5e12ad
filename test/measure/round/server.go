package round

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// memoryServer is an API server with a cache: it stores objects in memory, and counts the requests. It stores updates of a
// status and patches of objects; other writes only count, so that what they would start does not happen.
type memoryServer struct {
	scheme  *runtime.Scheme
	objects map[schema.GroupVersionKind][]client.Object
	// requests counts the writes, and the reads of live. evictions counts those that evict a pod.
	requests, evictions atomic.Int64
}

func newServer(scheme *runtime.Scheme) *memoryServer {
	return &memoryServer{scheme: scheme, objects: map[schema.GroupVersionKind][]client.Object{}}
}

func (s *memoryServer) sent() int { return int(s.requests.Load()) }

// add stores objects.
func (s *memoryServer) add(all ...client.Object) error {
	for _, o := range all {
		kind, err := apiutil.GVKForObject(o, s.scheme)
		if err != nil {
			return err
		}
		s.objects[kind] = append(s.objects[kind], o)
	}
	return nil
}

// at returns the place of an object in those of its kind.
func (s *memoryServer) at(key client.ObjectKey, o client.Object) (of []client.Object, at int, err error) {
	kind, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		return nil, 0, err
	}
	of = s.objects[kind]
	for i := range of {
		if client.ObjectKeyFromObject(of[i]) == key {
			return of, i, nil
		}
	}
	return nil, 0, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String())
}

// get copies an object.
func (s *memoryServer) get(key client.ObjectKey, into client.Object) error {
	of, at, err := s.at(key, into)
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(of[at].DeepCopyObject()).Elem())
	return nil
}

// list selects objects like the cache of controller-runtime. It copies them unless the caller allows to share them.
func (s *memoryServer) list(list client.ObjectList, opts []client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, s.scheme)
	if err != nil {
		return err
	}
	kind.Kind = kind.Kind[:len(kind.Kind)-len("List")]
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	var found []runtime.Object
	for _, object := range s.objects[kind] {
		if selects(&o, object) {
			found = append(found, object)
		}
	}
	if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
		for i := range found {
			found[i] = found[i].DeepCopyObject()
		}
	}
	return meta.SetList(list, found)
}

func selects(o *client.ListOptions, object client.Object) bool {
	if o.Namespace != "" && object.GetNamespace() != o.Namespace {
		return false
	}
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if o.FieldSelector == nil {
		return true
	}
	node, is := o.FieldSelector.RequiresExactMatch("spec.nodeName")
	pod, isPod := object.(*corev1.Pod)
	return is && isPod && pod.Spec.NodeName == node
}

// live reads from the server.
type live struct{ *memoryServer }

// Get reads an object of the server.
func (l live) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	l.requests.Add(1)
	return l.get(key, o)
}

// List lists objects of the server.
func (l live) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	l.requests.Add(1)
	return l.list(list, opts)
}

// cached reads from the cache and writes to the server.
type cached struct {
	client.Client // nil: the methods that a fleet does not call panic
	*memoryServer
}

// Get reads an object of the cache.
func (c cached) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return c.get(key, o)
}

// List lists objects of the cache.
func (c cached) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.list(list, opts)
}

// Create counts the request and creates nothing.
func (c cached) Create(context.Context, client.Object, ...client.CreateOption) error {
	c.requests.Add(1)
	return nil
}

// Delete counts the request and deletes nothing.
func (c cached) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	c.requests.Add(1)
	return nil
}

// Patch stores the result of a merge patch.
func (c cached) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	c.requests.Add(1)
	of, at, err := c.at(client.ObjectKeyFromObject(o), o)
	if err != nil {
		return err
	}
	text, err := p.Data(o)
	if err != nil {
		return err
	}
	before, err := json.Marshal(of[at])
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, text, of[at])
	if err != nil {
		return fmt.Errorf("patch %s: %w", o.GetName(), err)
	}
	patched := reflect.New(reflect.TypeOf(of[at]).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(after, patched); err != nil {
		return err
	}
	of[at] = patched
	return nil
}

// Scheme returns the scheme of the server.
func (c cached) Scheme() *runtime.Scheme { return c.scheme }

// Status writes statuses.
func (c cached) Status() client.SubResourceWriter { return subresource{cached: c, name: "status"} }

// SubResource writes a subresource.
func (c cached) SubResource(name string) client.SubResourceClient {
	return subresource{cached: c, name: name}
}

// subresource is a subresource of all kinds.
type subresource struct {
	client.SubResourceClient // nil: the methods that a fleet does not call panic
	cached                   cached
	name                     string
}

// Update stores an object with its status.
func (s subresource) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	s.cached.requests.Add(1)
	of, at, err := s.cached.at(client.ObjectKeyFromObject(o), o)
	if err != nil {
		return err
	}
	of[at] = o.DeepCopyObject().(client.Object)
	return nil
}

// Create counts an eviction.
func (s subresource) Create(_ context.Context, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
	s.cached.requests.Add(1)
	if s.name == "eviction" {
		s.cached.evictions.Add(1)
	}
	return nil
}

// Patch counts a change of the number of machines.
func (s subresource) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	s.cached.requests.Add(1)
	return nil
}
