package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// store is an API server in memory with an index of pods by node, for the few requests of Karpenter's disruption. Like a
// cache, it copies what it returns. Other requests panic or are errors. It is safe for concurrent use.
type store struct {
	client.Client // nil

	mu     sync.RWMutex
	pool   *v1.NodePool
	nodes  map[string]*corev1.Node
	claims map[string]*v1.NodeClaim
	pods   map[string]map[string]*corev1.Pod // by node
	made   int
	// touched are the nodes and claims that Karpenter has written since the last call of written, and deleted the claims
	// that it has deleted.
	touchedNodes, touchedClaims, deleted map[string]bool
}

func newStore(pool *v1.NodePool) *store {
	return &store{
		pool: pool, nodes: map[string]*corev1.Node{}, claims: map[string]*v1.NodeClaim{}, pods: map[string]map[string]*corev1.Pod{},
		touchedNodes: map[string]bool{}, touchedClaims: map[string]bool{}, deleted: map[string]bool{},
	}
}

// Get copies an object.
func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch o := into.(type) {
	case *corev1.Node:
		if n := s.nodes[key.Name]; n != nil {
			n.DeepCopyInto(o)
			return nil
		}
	case *v1.NodeClaim:
		if c := s.claims[key.Name]; c != nil {
			c.DeepCopyInto(o)
			return nil
		}
	case *v1.NodePool:
		if key.Name == s.pool.Name {
			s.pool.DeepCopyInto(o)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List copies objects: all nodes, claims and pools, or the pods on a node. There are no PodDisruptionBudgets and DaemonSets.
func (s *store) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch l := into.(type) {
	case *corev1.NodeList:
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			l.Items = append(l.Items, *s.nodes[name].DeepCopy())
		}
	case *v1.NodeClaimList:
		for _, name := range slices.Sorted(maps.Keys(s.claims)) {
			l.Items = append(l.Items, *s.claims[name].DeepCopy())
		}
	case *v1.NodePoolList:
		l.Items = []v1.NodePool{*s.pool.DeepCopy()}
	case *corev1.PodList:
		o := client.ListOptions{}
		o.ApplyOptions(opts)
		if o.FieldSelector == nil {
			return fmt.Errorf("list all pods: not possible")
		}
		node, _ := o.FieldSelector.RequiresExactMatch("spec.nodeName")
		for _, name := range slices.Sorted(maps.Keys(s.pods[node])) {
			l.Items = append(l.Items, *s.pods[node][name].DeepCopy())
		}
	case *policyv1.PodDisruptionBudgetList, *appsv1.DaemonSetList:
	default:
		return fmt.Errorf("list %T: not possible", into)
	}
	return nil
}

// Create stores a claim and names it.
func (s *store) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	claim, is := o.(*v1.NodeClaim)
	if !is {
		return fmt.Errorf("create %T: not possible", o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	claim.Name = fmt.Sprintf("%s%d", claim.GenerateName, s.made)
	s.made++
	s.claims[claim.Name] = claim.DeepCopy()
	return nil
}

// Patch stores an object, which the caller has changed already.
func (s *store) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Node:
		s.nodes[o.Name] = o.DeepCopy()
		s.touchedNodes[o.Name] = true
	case *v1.NodeClaim:
		s.claims[o.Name] = o.DeepCopy()
		s.touchedClaims[o.Name] = true
	default:
		return fmt.Errorf("patch %T: not possible", o)
	}
	return nil
}

// Delete notes that a claim is to be deleted.
func (s *store) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := o.(*v1.NodeClaim); !is {
		return fmt.Errorf("delete %T: not possible", o)
	}
	s.deleted[o.GetName()] = true
	return nil
}

// Status writes statuses.
func (s *store) Status() client.SubResourceWriter { return status{s: s} }

type status struct {
	client.SubResourceWriter // nil
	s                        *store
}

// Patch stores an object with its status, which the caller has changed already.
func (w status) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.s.Patch(ctx, o, p)
}

// written returns copies of the nodes and claims that have been written since the last call, which a cache would report.
func (s *store) written() (nodes []*corev1.Node, claims []*v1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.touchedNodes)) {
		if n := s.nodes[name]; n != nil {
			nodes = append(nodes, n.DeepCopy())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.touchedClaims)) {
		if c := s.claims[name]; c != nil {
			claims = append(claims, c.DeepCopy())
		}
	}
	clear(s.touchedNodes)
	clear(s.touchedClaims)
	return nodes, claims
}

// bind stores a pod on a node, and takes it from the old one.
func (s *store) bind(p *corev1.Pod, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods[p.Spec.NodeName], p.Name)
	p.Spec.NodeName = node
	if s.pods[node] == nil {
		s.pods[node] = map[string]*corev1.Pod{}
	}
	s.pods[node][p.Name] = p
}

// forget deletes a node and its claim.
func (s *store) forget(node, claim string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, node)
	delete(s.pods, node)
	delete(s.claims, claim)
	delete(s.deleted, claim)
}
