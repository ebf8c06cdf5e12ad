package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"supercargo.dev/supercargo/manifests"
)

// InstallCRDs applies the CustomResourceDefinitions of Supercargo, waits until all of them are
// served, and creates the object in whose status the descheduler reports.
func (p *Playground) InstallCRDs(ctx context.Context) error {
	definitions, err := supercargoCRDs()
	if err != nil {
		return err
	}
	if err := p.InstallDefinitions(ctx, definitions); err != nil {
		return err
	}
	report, err := ParseManifests("manifests/descheduler/consolidation.yaml", bytes.NewReader(manifests.Consolidation))
	if err != nil {
		return err
	}
	return p.Apply(ctx, report)
}

// supercargoCRDs reads the CustomResourceDefinitions of Supercargo.
func supercargoCRDs() ([]Manifest, error) { return parseAll(manifests.CRDs) }

// parseAll parses all files of a file system as manifests.
func parseAll(files fs.ReadFileFS) ([]Manifest, error) {
	var all []Manifest
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := ParseManifests(path, bytes.NewReader(text))
		all = append(all, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	return all, nil
}

// InstallDefinitions applies CustomResourceDefinitions and waits until every served version can be
// listed. It returns early only if ctx ends, with an error that says what is missing.
func (p *Playground) InstallDefinitions(ctx context.Context, definitions []Manifest) error {
	if err := p.Apply(ctx, definitions); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(p.plane.Config())
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	var resources []schema.GroupVersionResource
	for _, m := range definitions {
		resources = append(resources, served(m.Object)...)
	}
	err = p.group.Poll(ctx, func(ctx context.Context) error {
		var errs []error
		for _, r := range resources {
			_, err := client.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("wait until the new kinds are served: %w", err)
	}
	return nil
}

// served returns the resources that a CustomResourceDefinition serves.
func served(definition *unstructured.Unstructured) []schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	var resources []schema.GroupVersionResource
	for _, v := range versions {
		fields, _ := v.(map[string]any)
		if name, _ := fields["name"].(string); fields["served"] == true {
			resources = append(resources, schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		}
	}
	return resources
}
