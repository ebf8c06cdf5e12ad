package playground

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"supercargo.dev/supercargo/lab/playground/machines"
)

// clusterAPIManifests are cluster-api's CRDs and webhooks in YAML, written by
// hack/generate-cluster-api.sh.
//
//go:embed cluster-api.yaml.gz
var clusterAPIManifests []byte

// clusterAPIDefinitions reads the objects that the manager needs in the API server: its own CRDs,
// those of the machines, and the webhook configurations. The result is shared and must not be
// modified.
var clusterAPIDefinitions = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	packed, err := gzip.NewReader(bytes.NewReader(clusterAPIManifests))
	if err != nil {
		return nil, fmt.Errorf("unpack the manifests of cluster-api: %w", err)
	}
	manifests, err := ParseManifests("cluster-api.yaml", packed)
	if err != nil {
		return nil, err
	}
	ours, err := parseAll(machines.CRDs)
	manifests = append(manifests, ours...)
	objects := make([]*unstructured.Unstructured, len(manifests))
	for i, m := range manifests {
		dropDescriptions(m.Object.Object)
		objects[i] = m.Object
	}
	return objects, err
})

// dropDescriptions removes the descriptions from a definition. They are two thirds of its size, and
// delay serving the kinds by seconds.
func dropDescriptions(value any) {
	switch value := value.(type) {
	case map[string]any:
		if _, words := value["description"].(string); words { // not a field of that name
			delete(value, "description")
		}
		for _, v := range value {
			dropDescriptions(v)
		}
	case []any:
		for _, v := range value {
			dropDescriptions(v)
		}
	}
}

// resourceOf maps the kinds of the definitions to their resources.
var resourceOf = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition":       {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"MutatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
}

// webhookServer is the address of cluster-api's webhooks for the API server.
type webhookServer struct {
	url string // without a path
	ca  []byte // PEM
}

// direct replaces every reference to a Service in a definition by the server. It modifies the
// object.
func (w webhookServer) direct(object *unstructured.Unstructured) error {
	var configs []any // the clientConfigs
	switch object.GetKind() {
	case "CustomResourceDefinition":
		config, has, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "conversion", "webhook", "clientConfig")
		if err != nil {
			return err
		}
		if has {
			configs = append(configs, config)
		}
	default:
		hooks, _, err := unstructured.NestedFieldNoCopy(object.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, hook := range hooks.([]any) {
			configs = append(configs, hook.(map[string]any)["clientConfig"])
		}
	}
	for _, c := range configs {
		config, ok := c.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: clientConfig is %T: must be a mapping", object.GetName(), c)
		}
		path, _, err := unstructured.NestedString(config, "service", "path")
		if err != nil {
			return err
		}
		delete(config, "service")
		config["url"] = w.url + path
		config["caBundle"] = base64.StdEncoding.EncodeToString(w.ca)
	}
	return nil
}

// dropOldVersions keeps only the storage version of a kind, so that no object is ever converted. It
// modifies the object.
func dropOldVersions(definition *unstructured.Unstructured) error {
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		return err
	}
	versions = slices.DeleteFunc(versions, func(v any) bool {
		stored, _, _ := unstructured.NestedBool(v.(map[string]any), "storage")
		return !stored
	})
	unstructured.RemoveNestedField(definition.Object, "spec", "conversion")
	return unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions")
}

// define applies the definitions and waits until the API server serves the new kinds.
func (p *Playground) define(ctx context.Context, server webhookServer) error {
	definitions, err := clusterAPIDefinitions()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(p.plane.Config())
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	var resources []resourcePath
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(createParallelism)
	for _, definition := range definitions {
		if definition.GetKind() == "CustomResourceDefinition" {
			resources = append(resources, storedResource(definition))
		}
		group.Go(func() error {
			object := definition.DeepCopy()
			if object.GetKind() == "CustomResourceDefinition" && !p.opts.OldClusterAPI {
				if err := dropOldVersions(object); err != nil {
					return fmt.Errorf("read the versions of %s: %w", object.GetName(), err)
				}
			}
			if err := server.direct(object); err != nil {
				return err
			}
			_, err := client.Resource(resourceOf[object.GetKind()]).
				Apply(groupCtx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			if err != nil {
				return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return p.group.Poll(ctx, func(ctx context.Context) error { return p.serves(ctx, resources) })
}

// serves returns an error until the API server discovers the resources and lists their objects. The
// first list of each resource starts its cache in the API server, so that later clients need not
// wait.
func (p *Playground) serves(ctx context.Context, resources []resourcePath) error {
	_, lists, err := p.plane.Client().Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	known := map[resourcePath]bool{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			known[resourcePath(path.Join("/apis", list.GroupVersion, r.Name))] = true
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(createParallelism)
	for _, resource := range resources {
		if !known[resource] {
			return fmt.Errorf("%s is not served yet", resource)
		}
		group.Go(func() error {
			return p.plane.Client().Discovery().RESTClient().Get().AbsPath(string(resource)).
				Param("resourceVersion", "0").Param("limit", "1").MaxRetries(0).Do(ctx).Error()
		})
	}
	return group.Wait()
}

// resourcePath is the URL path that lists the objects of a resource.
type resourcePath string

// storedResource returns the resource of a CustomResourceDefinition in the storage version.
func storedResource(definition *unstructured.Unstructured) resourcePath {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		if version, ok := version.(map[string]any); ok && version["storage"] == true {
			return resourcePath(path.Join("/apis", group, fmt.Sprint(version["name"]), plural))
		}
	}
	return ""
}
