// Package fleetsite runs the shipped reconciler of NodeFleets, with the provider for cluster-api, against an API server in
// memory: server.go is the server, objects.go and machines.go make objects as they are in a
// cluster, reconciler.go sets up the reconciler.
package fleetsite

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
)

// Server is an API server with a cache: it stores objects in memory, and counts the requests. It stores updates of a
// status and patches of objects. Other writes only count, so that what they would start does not happen, unless a
// function is called for them. It is safe for concurrent use.
type Server struct {
	// Requests counts the writes, and the reads of [Live]. Evictions counts those that evict a pod.
	Requests, Evictions atomic.Int64
	// Evicted is called for each eviction, and Scaled for each change of the number of machines of a MachineDeployment,
	// from several goroutines; nil ignores them.
	Evicted func(pod client.ObjectKey)
	Scaled  func(deployment client.ObjectKey, replicas int)

	scheme *runtime.Scheme
	mu     sync.RWMutex
	kinds  map[schema.GroupVersionKind]*objects
}

// objects are all objects of a kind.
type objects struct {
	all   []client.Object
	index map[client.ObjectKey]int
	// on are the pods on each node.
	on map[string]map[client.ObjectKey]bool
}

// NewServer returns a server without objects, which knows the kinds of Kubernetes, of Supercargo and of cluster-api.
func NewServer() (*Server, error) {
	s := &Server{scheme: runtime.NewScheme(), kinds: map[schema.GroupVersionKind]*objects{}}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, clusterapi.AddToScheme} {
		if err := add(s.scheme); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Sent returns the number of requests so far.
func (s *Server) Sent() int { return int(s.Requests.Load()) }

// Scheme returns the scheme of the server.
func (s *Server) Scheme() *runtime.Scheme { return s.scheme }

// Add stores objects that do not exist yet.
func (s *Server) Add(all ...client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range all {
		kind, err := apiutil.GVKForObject(o, s.scheme)
		if err != nil {
			return err
		}
		of := s.kinds[kind]
		if of == nil {
			of = &objects{index: map[client.ObjectKey]int{}, on: map[string]map[client.ObjectKey]bool{}}
			s.kinds[kind] = of
		}
		key := client.ObjectKeyFromObject(o)
		if _, exists := of.index[key]; exists {
			return fmt.Errorf("%T %s exists twice", o, key)
		}
		of.all = append(of.all, nil)
		of.put(len(of.all)-1, o)
	}
	return nil
}

// Replace stores an object instead of another one of its kind, which may have another name.
func (s *Server) Replace(old, o client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, at, err := s.at(client.ObjectKeyFromObject(old), old)
	if err != nil {
		return err
	}
	of.take(at)
	of.put(at, o)
	return nil
}

// Remove removes an object. The last of its kind takes its place in the order.
func (s *Server) Remove(o client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, at, err := s.at(client.ObjectKeyFromObject(o), o)
	if err != nil {
		return err
	}
	last := len(of.all) - 1
	of.take(at)
	if at != last {
		moved := of.all[last]
		of.take(last)
		of.put(at, moved)
	}
	of.all = slices.Delete(of.all, last, last+1)
	return nil
}

// All returns the objects of the kind of o in the order in which they were added. They must not be changed.
func (s *Server) All(o client.Object) []client.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	of, err := s.of(o)
	if err != nil {
		return nil
	}
	return slices.Clone(of.all)
}

// of returns the objects of the kind of o.
func (s *Server) of(o runtime.Object) (*objects, error) {
	kind, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		return nil, err
	}
	return s.kind(kind), nil
}

func (s *Server) kind(kind schema.GroupVersionKind) *objects {
	if of := s.kinds[kind]; of != nil {
		return of
	}
	return &objects{}
}

// put stores an object at a place.
func (of *objects) put(at int, o client.Object) {
	key := client.ObjectKeyFromObject(o)
	of.all[at], of.index[key] = o, at
	if pod, is := o.(*corev1.Pod); is {
		if of.on[pod.Spec.NodeName] == nil {
			of.on[pod.Spec.NodeName] = map[client.ObjectKey]bool{}
		}
		of.on[pod.Spec.NodeName][key] = true
	}
}

// take removes an object from the indexes.
func (of *objects) take(at int) {
	key := client.ObjectKeyFromObject(of.all[at])
	delete(of.index, key)
	if pod, is := of.all[at].(*corev1.Pod); is {
		delete(of.on[pod.Spec.NodeName], key)
	}
}

// at returns the place of an object in those of its kind.
func (s *Server) at(key client.ObjectKey, o client.Object) (of *objects, at int, err error) {
	of, err = s.of(o)
	if err != nil {
		return nil, 0, err
	}
	at, exists := of.index[key]
	if !exists {
		return nil, 0, apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, key.String())
	}
	return of, at, nil
}

// Read copies an object without a request.
func (s *Server) Read(key client.ObjectKey, into client.Object) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	of, at, err := s.at(key, into)
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(of.all[at].DeepCopyObject()).Elem())
	return nil
}

// list selects objects like the cache of controller-runtime. It copies them unless the caller allows to share them.
func (s *Server) list(list client.ObjectList, opts []client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, s.scheme)
	if err != nil {
		return err
	}
	kind.Kind = kind.Kind[:len(kind.Kind)-len("List")]
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []runtime.Object
	for _, object := range s.kind(kind).candidates(&o) {
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

// candidates returns the objects that a request may select: the pods of one node, if it names one, or all.
func (of *objects) candidates(o *client.ListOptions) []client.Object {
	if o.FieldSelector == nil {
		return of.all
	}
	node, is := o.FieldSelector.RequiresExactMatch("spec.nodeName")
	if !is {
		return nil
	}
	var places []int
	for key := range of.on[node] {
		places = append(places, of.index[key])
	}
	slices.Sort(places)
	all := make([]client.Object, len(places))
	for i, at := range places {
		all[i] = of.all[at]
	}
	return all
}

func selects(o *client.ListOptions, object client.Object) bool {
	return (o.Namespace == "" || object.GetNamespace() == o.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(object.GetLabels())))
}

// Live reads from the server.
type Live struct{ *Server }

// Get reads an object of the server.
func (l Live) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	l.Requests.Add(1)
	return l.Read(key, o)
}

// List lists objects of the server.
func (l Live) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	l.Requests.Add(1)
	return l.list(list, opts)
}

// Cached reads from the cache and writes to the server. The methods that a fleet does not call panic.
type Cached struct {
	client.Client // nil
	*Server
}

// Get reads an object of the cache.
func (c Cached) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return c.Read(key, o)
}

// List lists objects of the cache.
func (c Cached) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.list(list, opts)
}

// SharedPods returns all pods in the order in which they were added.
func (c Cached) SharedPods(context.Context) ([]*corev1.Pod, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	stored := c.kind(corev1.SchemeGroupVersion.WithKind("Pod")).all
	all := make([]*corev1.Pod, len(stored))
	for i, o := range stored {
		all[i] = o.(*corev1.Pod)
	}
	return all, nil
}

// Create counts the request and creates nothing.
func (c Cached) Create(context.Context, client.Object, ...client.CreateOption) error {
	c.Requests.Add(1)
	return nil
}

// Delete counts the request and deletes nothing.
func (c Cached) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	c.Requests.Add(1)
	return nil
}

// Patch stores the result of a merge patch, and reads it into the object.
func (c Cached) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	c.Requests.Add(1)
	text, err := p.Data(o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of, at, err := c.at(client.ObjectKeyFromObject(o), o)
	if err != nil {
		return err
	}
	before, err := json.Marshal(of.all[at])
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, text, of.all[at])
	if err != nil {
		return fmt.Errorf("patch %s: %w", o.GetName(), err)
	}
	patched := reflect.New(reflect.TypeOf(of.all[at]).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(after, patched); err != nil {
		return err
	}
	of.all[at] = patched
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(patched.DeepCopyObject()).Elem()) // the real client reads the answer into it
	return nil
}

// Scheme returns the scheme of the server.
func (c Cached) Scheme() *runtime.Scheme { return c.scheme }

// Status writes statuses.
func (c Cached) Status() client.SubResourceWriter { return subresource{cached: c, name: "status"} }

// SubResource writes a subresource.
func (c Cached) SubResource(name string) client.SubResourceClient {
	return subresource{cached: c, name: name}
}

// subresource is a subresource of all kinds. The methods that a fleet does not call panic.
type subresource struct {
	client.SubResourceClient // nil
	cached                   Cached
	name                     string
}

// Get reads the scale of a MachineDeployment.
func (s subresource) Get(_ context.Context, o, into client.Object, _ ...client.SubResourceGetOption) error {
	s.cached.Requests.Add(1)
	n, err := s.cached.replicas(client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	*into.(*autoscalingv1.Scale) = autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}, Spec: autoscalingv1.ScaleSpec{Replicas: int32(n)},
	}
	return nil
}

// Update stores an object with its status.
func (s subresource) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	s.cached.Requests.Add(1)
	s.cached.mu.Lock()
	defer s.cached.mu.Unlock()
	of, at, err := s.cached.at(client.ObjectKeyFromObject(o), o)
	if err != nil {
		return err
	}
	of.all[at] = o.DeepCopyObject().(client.Object)
	return nil
}

// Create counts an eviction.
func (s subresource) Create(_ context.Context, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
	s.cached.Requests.Add(1)
	if s.name != "eviction" {
		return nil
	}
	s.cached.Evictions.Add(1)
	if s.cached.Evicted != nil {
		s.cached.Evicted(client.ObjectKeyFromObject(o))
	}
	return nil
}

// Patch counts a change of the number of machines, which is a JSON patch whose last operation has the new number.
func (s subresource) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	s.cached.Requests.Add(1)
	if s.cached.Scaled == nil {
		return nil
	}
	text, err := p.Data(o)
	if err != nil {
		return err
	}
	var steps []struct {
		Op    string                  `json:"op"`
		Value autoscalingv1.ScaleSpec `json:"value"`
	}
	if err := json.Unmarshal(text, &steps); err != nil || len(steps) == 0 || steps[len(steps)-1].Op != "replace" {
		return fmt.Errorf("patch the scale of %s with %s: not possible", o.GetName(), text)
	}
	s.cached.Scaled(client.ObjectKeyFromObject(o), int(steps[len(steps)-1].Value.Replicas))
	return nil
}
