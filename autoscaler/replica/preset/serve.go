package preset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
)

// owner describes the owner of series in terms of the metrics APIs.
type owner struct {
	// namespaceLabel is the label with the namespace of the owner, and labels maps other
	// labels to their names in the series.
	namespaceLabel string
	labels         map[string]string
	// everywhere marks series without an owner in a namespace: clients of all namespaces may
	// read them.
	everywhere bool
	// resource and group are the resource of the owner, and objectLabel is the label with its
	// name. If resource is empty, there is no object, and only external metrics.
	group, resource, objectLabel string
}

// Serve returns the configuration with its presets expanded into metrics. The server
// restricts each query to the namespace and the labels that a client selects, so one preset
// is enough for all ingresses. Metrics of objects are also served as custom metrics, one
// value for each object. c must be valid and is not modified. Errors are a [field.ErrorList]:
// unknown presets and parameters, and duplicate names.
func Serve(c *adapterv1alpha1.MetricsAdapterConfiguration) (*adapterv1alpha1.MetricsAdapterConfiguration, error) {
	out := c.DeepCopy()
	out.Presets = nil
	taken := map[string]bool{adapterv1alpha1.DesiredReplicas: true}
	for i := range c.External {
		taken[c.External[i].Name] = true
	}
	var errs field.ErrorList
	for i := range c.Presets {
		path := field.NewPath("presets").Index(i)
		external, custom, err := served(&c.Presets[i])
		if err != nil {
			errs = append(errs, field.Invalid(path, c.Presets[i].Name, err.Error()))
			continue
		}
		for _, m := range external {
			if taken[m.Name] {
				errs = append(errs, field.Duplicate(path.Child("prefix"), m.Name))
			}
			taken[m.Name] = true
		}
		for _, m := range custom {
			for j := range c.Custom {
				if o := &c.Custom[j]; o.Name == m.Name && o.Resource == m.Resource && o.Group == m.Group {
					errs = append(errs, field.Duplicate(path.Child("prefix"), m.Name))
				}
			}
		}
		out.External, out.Custom = append(out.External, external...), append(out.Custom, custom...)
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("check the configuration: %w", err)
	}
	return out, nil
}

// served returns the metrics of one preset.
func served(of *adapterv1alpha1.MetricPreset) ([]adapterv1alpha1.ExternalMetric, []adapterv1alpha1.CustomMetric, error) {
	e, err := find(of.Name)
	if err != nil {
		return nil, nil, err
	}
	p := &parameters{given: of.Parameters, serving: true}
	p.check(e)
	sums, owner := e.make(p), e.serve(p)
	if err := p.err(e); err != nil {
		return nil, nil, err
	}
	asked := func(query string) adapterv1alpha1.Query {
		return adapterv1alpha1.Query{Query: query, NamespaceLabel: owner.namespaceLabel, SelectBy: adapterv1alpha1.SelectSeries, Labels: owner.labels}
	}
	var external []adapterv1alpha1.ExternalMetric
	var custom []adapterv1alpha1.CustomMetric
	for _, m := range sums.named(of.Prefix) {
		external = append(external, adapterv1alpha1.ExternalMetric{Name: m.name, Query: asked(m.query), AllNamespaces: owner.everywhere})
	}
	if owner.resource == "" {
		return external, nil, nil
	}
	p.by = owner.objectLabel
	for _, m := range e.make(p).named(of.Prefix) {
		custom = append(custom, adapterv1alpha1.CustomMetric{
			Name: m.name, Query: asked(m.query), Group: owner.group, Resource: owner.resource, ObjectLabel: owner.objectLabel,
		})
	}
	return external, custom, nil
}

// named is a query with the name of its metric.
type named struct{ name, query string }

// named returns the queries that are not empty.
func (q Queries) named(prefix string) []named {
	var all []named
	for _, n := range []named{
		{"_requests_per_second", q.ArrivalRate}, {"_response_seconds", q.ResponseTime}, {"_response_percentile_seconds", q.Percentile},
		{"_queue_length", q.QueueLength}, {"_utilization_percent", q.Utilization},
	} {
		if n.query != "" {
			all = append(all, named{prefix + n.name, n.query})
		}
	}
	return all
}

func ofIngresses(p *parameters) owner {
	prefix := p.exported()
	o := owner{namespaceLabel: prefix + "namespace", group: "networking.k8s.io", resource: "ingresses", objectLabel: "ingress"}
	if prefix != "" {
		o.labels = map[string]string{"service": prefix + "service"}
	}
	return o
}

// ofNginx has no object: the upstreams in the configuration of an nginx are not Services.
func ofNginx(p *parameters) owner {
	_, elsewhere := p.given["namespace"]
	return owner{namespaceLabel: "namespace", everywhere: elsewhere}
}

// ofManagers has no object: a manager is a process that may run anywhere.
func ofManagers(*parameters) owner { return owner{namespaceLabel: "namespace"} }

func ofPods(*parameters) owner {
	return owner{namespaceLabel: "namespace", resource: "pods", objectLabel: "pod"}
}
