package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
)

// apiServices is the resource in which the aggregator registers additional API servers.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Aggregate makes the API server proxy requests for the groups of the given APIServices, in YAML,
// to a server on a local port. That server needs a certificate for NAME.NAMESPACE.svc of the
// Services in the APIServices, unless these skip TLS verification.
//
// The playground has no pods behind a Service and no network. The Services therefore have the type
// ExternalName and resolve to localhost: by default the aggregator resolves the Service, not its
// endpoints, and connects to the port in the APIService.
func (p *Playground) Aggregate(ctx context.Context, manifest []byte, port int) error {
	found, err := ParseManifests("APIServices", bytes.NewReader(manifest))
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(p.plane.Config())
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	for _, m := range found {
		object := m.Object.DeepCopy()
		namespace, _, err1 := unstructured.NestedString(object.Object, "spec", "service", "namespace")
		name, _, err2 := unstructured.NestedString(object.Object, "spec", "service", "name")
		err3 := unstructured.SetNestedField(object.Object, int64(port), "spec", "service", "port")
		if err := errors.Join(err1, err2, err3); err != nil || object.GetKind() != "APIService" || name == "" {
			return errors.Join(fmt.Errorf("aggregate %s: must be an APIService with a Service", m), err)
		}
		if err := p.leadHome(ctx, namespace, name); err != nil {
			return fmt.Errorf("aggregate %s: %w", m, err)
		}
		_, err = client.Resource(apiServices).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if err != nil {
			return fmt.Errorf("aggregate %s: %w", m, err)
		}
	}
	return nil
}

// leadHome creates a Service that resolves to this machine, and its namespace.
func (p *Playground) leadHome(ctx context.Context, namespace, name string) error {
	as := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := p.plane.Client().CoreV1().Namespaces().Apply(ctx, coreac.Namespace(namespace), as); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	service := coreac.Service(name, namespace).WithSpec(coreac.ServiceSpec().WithType(corev1.ServiceTypeExternalName).WithExternalName("localhost"))
	if _, err := p.plane.Client().CoreV1().Services(namespace).Apply(ctx, service, as); err != nil {
		return fmt.Errorf("create Service %s/%s: %w", namespace, name, err)
	}
	return nil
}

// WaitAggregated waits until the aggregator reports all APIServices as available.
func (p *Playground) WaitAggregated(ctx context.Context) error {
	client, err := dynamic.NewForConfig(p.plane.Config())
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	err = p.group.Poll(ctx, func(ctx context.Context) error {
		list, err := client.Resource(apiServices).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := available(&list.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for aggregated APIs: %w", err)
	}
	return nil
}

// available returns an error unless the APIService is available.
func available(service *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Available" {
			if c["status"] == "True" {
				return nil
			}
			return fmt.Errorf("APIService %s is not available: %v", service.GetName(), c["message"])
		}
	}
	return fmt.Errorf("APIService %s does not have the condition Available yet", service.GetName())
}
