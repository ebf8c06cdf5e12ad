package playground

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"supercargo.dev/supercargo/internal/input/manifest"
	"supercargo.dev/supercargo/lab/playground/controlplane"
)

// fieldManager owns the fields that Apply sets.
const fieldManager = "supercargo-playground"

// newKindTimeout is how long a kind may take to be served after its definition has been applied.
const newKindTimeout = 30 * time.Second

// Manifest is an object to apply and where it was read.
type Manifest = manifest.Manifest

// ParseManifests reads objects as [manifest.Parse] does. Its errors are the user's.
func ParseManifests(source string, r io.Reader) ([]Manifest, error) {
	manifests, err := manifest.Parse(source, r)
	if err != nil {
		return nil, &controlplane.InputError{Err: err}
	}
	return manifests, nil
}

// Apply creates or updates the objects in the given order by server-side apply. A namespaced object
// without a namespace goes to the namespace default. It stops at the first object that is rejected.
func (p *Playground) Apply(ctx context.Context, manifests []Manifest) error {
	if len(manifests) == 0 {
		return nil
	}
	client, err := dynamic.NewForConfig(p.plane.Config())
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	a := &applier{
		client: client,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.plane.Client().Discovery())),
		poll:   p.group.Poll,
	}
	for _, m := range manifests {
		if err := a.apply(ctx, m); err != nil {
			return fmt.Errorf("apply %v: %w", m, err)
		}
	}
	return nil
}

// applier applies objects one by one.
type applier struct {
	client   dynamic.Interface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	poll     func(context.Context, func(context.Context) error) error
	newKinds bool // a CustomResourceDefinition has been applied
}

func (a *applier) apply(ctx context.Context, m Manifest) error {
	mapping, err := a.mapping(ctx, m.Object)
	if err != nil {
		return &controlplane.InputError{Err: err}
	}
	resources := dynamic.ResourceInterface(a.client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := m.Object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resources = a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	_, err = resources.Apply(ctx, m.Object.GetName(), m.Object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if m.Object.GetKind() == "CustomResourceDefinition" {
		a.newKinds = true
	}
	if refused(err) {
		return &controlplane.InputError{Err: err}
	}
	return err
}

// refused reports whether the server rejected the object. An unknown field is an internal error for
// the server, recognized only by its text.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
		err != nil && strings.Contains(err.Error(), "failed to create typed patch object")
}

// mapping returns the resource of an object's kind. It waits for a kind that an earlier object may
// have defined.
func (a *applier) mapping(ctx context.Context, object *unstructured.Unstructured) (*meta.RESTMapping, error) {
	kind := object.GroupVersionKind()
	find := func() (*meta.RESTMapping, error) { return a.mapper.RESTMapping(kind.GroupKind(), kind.Version) }
	mapping, err := find()
	if !meta.IsNoMatchError(err) || !a.newKinds {
		return mapping, err
	}
	ctx, cancel := context.WithTimeout(ctx, newKindTimeout)
	defer cancel()
	err = a.poll(ctx, func(context.Context) error {
		a.mapper.Reset()
		mapping, err = find()
		return err
	})
	return mapping, err
}
