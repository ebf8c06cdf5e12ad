// Package serve serves the custom and the external metrics API from queries.
package serve

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/metrics/pkg/apis/external_metrics"
	"k8s.io/utils/clock"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/desired"
	"supercargo.dev/supercargo/autoscaler/adapter/rule"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// External serves external.metrics.k8s.io.
type External struct {
	querier promql.Querier
	clock   clock.PassiveClock
	desired *desired.Source
	metrics map[string]externalMetric
}

type externalMetric struct {
	adapterv1alpha1.ExternalMetric
	rule *rule.Rule
}

var _ provider.ExternalMetricsProvider = (*External)(nil)

// NewExternal returns a provider of metrics and, if source is not nil, of the replicas that
// ReplicaPolicies want. Errors are a [field.ErrorList] with the errors in the queries.
func NewExternal(metrics []adapterv1alpha1.ExternalMetric, q promql.Querier, source *desired.Source, c clock.PassiveClock) (*External, error) {
	e := &External{querier: q, clock: c, desired: source, metrics: map[string]externalMetric{}}
	var errs field.ErrorList
	for i, m := range metrics {
		r, err := rule.New(m.Query.Query)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("external").Index(i).Child("query"), m.Query.Query, err.Error()))
		}
		e.metrics[m.Name] = externalMetric{m, r}
	}
	return e, errs.ToAggregate()
}

// ListAllExternalMetrics returns the metrics that are served, sorted.
func (e *External) ListAllExternalMetrics() []provider.ExternalMetricInfo {
	names := slices.Collect(maps.Keys(e.metrics))
	if e.desired != nil {
		names = append(names, adapterv1alpha1.DesiredReplicas)
	}
	slices.Sort(names)
	all := make([]provider.ExternalMetricInfo, len(names))
	for i, name := range names {
		all[i].Metric = name
	}
	return all
}

// GetExternalMetric returns the values of a metric in a namespace whose labels match the
// selector; none if there is no measurement. It omits values that are not finite numbers.
func (e *External) GetExternalMetric(ctx context.Context, namespace string, selector kubelabels.Selector, info provider.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	if selector == nil {
		selector = kubelabels.Everything()
	}
	var samples []promql.Sample
	var err error
	switch m, known := e.metrics[info.Metric]; {
	case info.Metric == adapterv1alpha1.DesiredReplicas && e.desired != nil:
		samples, err = e.desired.Values(ctx, namespace, selector)
	case known:
		samples, err = e.ask(ctx, m, namespace, selector)
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: external_metrics.GroupName, Resource: "externalmetrics"}, info.Metric)
	}
	if err != nil {
		return nil, asStatus(err)
	}
	list := &external_metrics.ExternalMetricValueList{Items: []external_metrics.ExternalMetricValue{}}
	for _, s := range samples {
		if q, ok := quantity(s.Value); ok {
			labels := maps.Clone(s.Labels)
			delete(labels, "__name__")
			list.Items = append(list.Items, external_metrics.ExternalMetricValue{
				MetricName: info.Metric, MetricLabels: labels, Timestamp: metav1.NewTime(s.At), Value: q,
			})
		}
	}
	slices.SortFunc(list.Items, func(a, b external_metrics.ExternalMetricValue) int {
		return compareLabels(a.MetricLabels, b.MetricLabels)
	})
	return list, nil
}

func (e *External) ask(ctx context.Context, m externalMetric, namespace string, selector kubelabels.Selector) ([]promql.Sample, error) {
	var bound []rule.Condition
	if !m.AllNamespaces {
		bound = []rule.Condition{rule.Is(m.NamespaceLabel, namespace)}
	}
	return ask(ctx, e.querier, e.clock.Now(), asked{rule: m.rule, query: &m.Query, bound: bound, selector: selector})
}
