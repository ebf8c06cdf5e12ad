package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/metadata"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	"k8s.io/utils/clock"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/rule"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Custom serves custom.metrics.k8s.io.
type Custom struct {
	querier promql.Querier
	clock   clock.PassiveClock
	mapper  apimeta.RESTMapper
	objects metadata.Interface
	metrics map[provider.CustomMetricInfo]customMetric
}

type customMetric struct {
	adapterv1alpha1.CustomMetric
	rule *rule.Rule
}

var _ provider.CustomMetricsProvider = (*Custom)(nil)

// NewCustom returns a provider of metrics. objects lists the objects that match a label
// selector, and mapper maps resources to kinds. Errors are a [field.ErrorList] with the
// errors in the queries.
func NewCustom(metrics []adapterv1alpha1.CustomMetric, q promql.Querier, mapper apimeta.RESTMapper, objects metadata.Interface, c clock.PassiveClock) (*Custom, error) {
	p := &Custom{querier: q, clock: c, mapper: mapper, objects: objects, metrics: map[provider.CustomMetricInfo]customMetric{}}
	var errs field.ErrorList
	for i, m := range metrics {
		r, err := rule.New(m.Query.Query)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("custom").Index(i).Child("query"), m.Query.Query, err.Error()))
		}
		p.metrics[provider.CustomMetricInfo{
			GroupResource: schema.GroupResource{Group: m.Group, Resource: m.Resource}, Namespaced: !m.ClusterScoped, Metric: m.Name,
		}] = customMetric{m, r}
	}
	return p, errs.ToAggregate()
}

// ListAllMetrics returns the metrics that are served, sorted.
func (p *Custom) ListAllMetrics() []provider.CustomMetricInfo {
	all := make([]provider.CustomMetricInfo, 0, len(p.metrics))
	for info := range p.metrics {
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b provider.CustomMetricInfo) int {
		return cmp.Or(cmp.Compare(a.GroupResource.String(), b.GroupResource.String()), cmp.Compare(a.Metric, b.Metric))
	})
	return all
}

// GetMetricByName returns the value of a metric of one object.
func (p *Custom) GetMetricByName(ctx context.Context, name types.NamespacedName, info provider.CustomMetricInfo, selector kubelabels.Selector) (*custom_metrics.MetricValue, error) {
	list, err := p.values(ctx, name.Namespace, []string{name.Name}, info, selector)
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, provider.NewMetricNotFoundForError(info.GroupResource, info.Metric, name.Name)
	}
	return &list.Items[0], nil
}

// GetMetricBySelector returns the values of a metric for the objects that match a selector.
// It omits objects without a value.
func (p *Custom) GetMetricBySelector(ctx context.Context, namespace string, objects kubelabels.Selector, info provider.CustomMetricInfo, selector kubelabels.Selector) (*custom_metrics.MetricValueList, error) {
	if _, err := p.find(info); err != nil {
		return nil, err
	}
	resource, err := p.mapper.ResourceFor(info.GroupResource.WithVersion(""))
	if err != nil {
		return nil, fmt.Errorf("find the resource %s: %w", info.GroupResource, err)
	}
	// ResourceVersion 0 lets the API server answer from its cache: newer objects have no
	// metrics yet.
	found, err := p.objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: objects.String(), ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list %s in namespace %q by %s: %w", info.GroupResource, namespace, objects, err)
	}
	names := make([]string, len(found.Items))
	for i := range found.Items {
		names[i] = found.Items[i].Name
	}
	return p.values(ctx, namespace, names, info, selector)
}

func (p *Custom) find(info provider.CustomMetricInfo) (customMetric, error) {
	m, known := p.metrics[info]
	if !known {
		return m, provider.NewMetricNotFoundError(info.GroupResource, info.Metric)
	}
	return m, nil
}

// values returns the values of a metric for the named objects, sorted by name.
func (p *Custom) values(ctx context.Context, namespace string, names []string, info provider.CustomMetricInfo, selector kubelabels.Selector) (*custom_metrics.MetricValueList, error) {
	list := &custom_metrics.MetricValueList{Items: []custom_metrics.MetricValue{}}
	m, err := p.find(info)
	if err != nil || len(names) == 0 {
		return list, err
	}
	kind, err := p.mapper.KindFor(info.GroupResource.WithVersion(""))
	if err != nil {
		return nil, fmt.Errorf("find the kind of %s: %w", info.GroupResource, err)
	}
	var bound []rule.Condition
	if !m.ClusterScoped {
		bound = append(bound, rule.Is(m.NamespaceLabel, namespace))
	}
	bound = append(bound, rule.Is(m.ObjectLabel, names...))
	samples, err := ask(ctx, p.querier, p.clock.Now(), asked{rule: m.rule, query: &m.Query, bound: bound, selector: selector})
	if err != nil {
		return nil, asStatus(err)
	}
	seen := map[string]bool{}
	for _, s := range samples {
		name := s.Labels[m.ObjectLabel]
		if !slices.Contains(names, name) {
			continue
		}
		if seen[name] {
			return nil, apierrors.NewInternalError(fmt.Errorf("metric %s has several values for %s %s: aggregate its query by (%s)", m.Name, info.GroupResource, name, m.ObjectLabel))
		}
		seen[name] = true
		if q, ok := quantity(s.Value); ok {
			v := custom_metrics.MetricValue{
				DescribedObject: custom_metrics.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: namespace, Name: name},
				Metric:          custom_metrics.MetricIdentifier{Name: m.Name}, Timestamp: metav1.NewTime(s.At), Value: q,
			}
			list.Items = append(list.Items, v)
		}
	}
	slices.SortFunc(list.Items, func(a, b custom_metrics.MetricValue) int {
		return cmp.Compare(a.DescribedObject.Name, b.DescribedObject.Name)
	})
	return list, nil
}
