// Package manifest reads objects of Kubernetes from streams of YAML or JSON documents.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Manifest is an object and where it was read.
type Manifest struct {
	Source   string // file name
	Document int    // in the file, from 1
	Object   *unstructured.Unstructured
}

// String identifies the manifest.
func (m Manifest) String() string {
	return fmt.Sprintf("%s: document %d: %s %s", m.Source, m.Document, m.Object.GetKind(), m.Object.GetName())
}

// Parse reads a YAML stream of objects. A List is replaced by its items, and empty
// documents are skipped. The error names every invalid document.
func Parse(source string, r io.Reader) ([]Manifest, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", source, err)
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
		return nil, err
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
