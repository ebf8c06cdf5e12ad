package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"supercargo.dev/supercargo/lab/playground/controlplane"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// fieldManager owns the fields that Apply sets.
const fieldManager = "supercargo-playground"

// newKindTimeout is how long a kind may take to be served after its definition has been applied.
const newKindTimeout = 30 * time.Second

// Manifest is an object to apply and its source.
type Manifest struct {
	Source   string // file name
	Document int    // in the file, from 1
	Object   *unstructured.Unstructured
}

// String identifies the manifest.
func (m Manifest) String() string {
	return fmt.Sprintf("%s: document %d: %s %s", m.Source, m.Document, m.Object.GetKind(), m.Object.GetName())
}

// ParseManifests reads a YAML stream of objects. A List is replaced by its items, and empty
// documents are skipped. The error names every invalid document.
func ParseManifests(source string, r io.Reader) ([]Manifest, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, &controlplane.InputError{Err: fmt.Errorf("read %s: %w", source, err)}
	}
	var manifests []Manifest
	var errs []error
	for i, document := range splitDocuments(data) {
		objects, err := parseDocument(document)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: document %d: %w", source, i+1, err))
		}
		for _, object := range objects {
			manifests = append(manifests, Manifest{Source: source, Document: i + 1, Object: object})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &controlplane.InputError{Err: err}
	}
	return manifests, nil
}

// splitDocuments splits a YAML stream at its separators. Each document starts with as many empty
// lines as there are lines before it, so that the line numbers in errors are those of the stream.
func splitDocuments(data []byte) [][]byte {
	separator := []byte("---")
	documents := [][]byte{nil}
	line := 0
	for text := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(text, separator); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			documents = append(documents, bytes.Repeat([]byte("\n"), line))
			text = rest
		}
		last := len(documents) - 1
		documents[last] = append(documents[last], text...)
		line++
	}
	if len(bytes.TrimSpace(documents[0])) == 0 && len(documents) > 1 {
		documents = documents[1:] // a stream may begin with a separator
	}
	return documents
}

func parseDocument(data []byte) ([]*unstructured.Unstructured, error) {
	var fields map[string]any
	if err := yaml.UnmarshalStrict(data, &fields); err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, nil
	}
	object := &unstructured.Unstructured{Object: fields}
	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		return nil, errors.New("apiVersion and kind are required")
	}
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, checkObject(object)
	}
	var objects []*unstructured.Unstructured
	err := object.EachListItem(func(item runtime.Object) error {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("item %d of the list is %T: must be an object", len(objects), item)
		}
		objects = append(objects, object)
		return checkObject(object)
	})
	return objects, err
}

func checkObject(object *unstructured.Unstructured) error {
	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		return errors.New("apiVersion and kind are required")
	}
	if object.GetName() == "" {
		return fmt.Errorf("%s: metadata.name is required: objects are applied by name", object.GetKind())
	}
	return nil
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
