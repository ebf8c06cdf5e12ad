package preset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
)

// owner says whose series are, in the words of the metrics APIs.
type owner struct {
	// namespaceLabel is the label that has the namespace of the owner, and labels what
	// other labels are called in the series.
	namespaceLabel string
	labels         map[string]string
	// everywhere is for series that have no owner in a namespace: all may read them.
	everywhere bool
	// resource of group is the kind of the owner, and objectLabel has its name. Without a
	// resource there is no object, and metrics are external ones only.
	group, resource, objectLabel string
}

// Serve returns the configuration with the metrics of its presets written out among the
// others: what is measured is narrowed by the server to the namespace and the labels that
// a client asks for, so that one preset is enough for all ingresses. Metrics of objects
// are served as custom metrics too, one value for each object. The configuration given is
// not changed; it has been validated. Errors are a [field.ErrorList]: presets and
// parameters that there are not, and names that others have.
func Serve(c *adapterv1alpha1.MetricsAdapterConfiguration) (*adapterv1alpha1.MetricsAdapterConfiguration, error) {
	out := c.DeepCopy()
	out.Presets = nil
	taken := map[string]bool{adapterv1alpha1.WantedReplicas: true}
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

// served are the metrics of one preset.
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

// named lists the queries there are.
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

// ofNginx has no object: an nginx stands before the upstreams that its configuration
// names, and those are no Services.
func ofNginx(p *parameters) owner {
	_, elsewhere := p.given["namespace"]
	return owner{namespaceLabel: "namespace", everywhere: elsewhere}
}

// ofManagers has no object: a manager is a process that may run anywhere.
func ofManagers(*parameters) owner { return owner{namespaceLabel: "namespace"} }

func ofPods(*parameters) owner {
	return owner{namespaceLabel: "namespace", resource: "pods", objectLabel: "pod"}
}
