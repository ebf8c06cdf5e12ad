package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/desired"
	"supercargo.dev/supercargo/internal/platform/promql"
)

var (
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now  = clocktesting.NewFakePassiveClock(noon)
)

// answers is a querier with fixed answers to some expressions.
type answers map[string][]promql.Sample

var errDown = errors.New("it is down")

func (a answers) Query(_ context.Context, expression string, at time.Time) ([]promql.Sample, error) {
	if !at.Equal(noon) {
		return nil, fmt.Errorf("asked for %v", at)
	}
	found, ok := a[expression]
	if !ok {
		return nil, fmt.Errorf("%w: %s", errDown, expression)
	}
	return found, nil
}

// sample returns a sample with labels given as pairs.
func sample(value float64, pairs ...string) promql.Sample {
	labels := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	return promql.Sample{Labels: labels, Value: value, At: noon}
}

func selector(t *testing.T, text string) kubelabels.Selector {
	t.Helper()
	s, err := kubelabels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plain returns a query with the defaults.
func plain(text string, change ...func(*adapterv1alpha1.Query)) adapterv1alpha1.Query {
	q := adapterv1alpha1.Query{Query: text, NamespaceLabel: "namespace", SelectBy: adapterv1alpha1.SelectSeries}
	for _, c := range change {
		c(&q)
	}
	return q
}

func byAnswer(q *adapterv1alpha1.Query) { q.SelectBy = adapterv1alpha1.SelectAnswer }

// externals returns a provider with some metrics and one ReplicaPolicy, shop/web, that wants
// 4.
func externals(t *testing.T, a answers) *External {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.ReplicaPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	policy.Spec.Mode, policy.Status.DesiredReplicas = v1alpha1.ReplicasViaHPA, 4
	policy.Status.LastObservation = &v1alpha1.ReplicaObservation{Time: metav1.NewTime(noon)}
	source := &desired.Source{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).Build(), Clock: now, StaleAfter: time.Minute}
	e, err := NewExternal([]adapterv1alpha1.ExternalMetric{
		{Name: "rate", Query: plain("sum(rate(r[1m]))")},
		{Name: "bill", Query: plain("bill", byAnswer), AllNamespaces: true},
	}, a, source, now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExternalMetricsAreNarrowedToTheirNamespaceAndSelector(t *testing.T) {
	e := externals(t, answers{
		`sum(rate(r{namespace="shop"}[1m]))`:             {sample(12.3456)},
		`sum(rate(r{namespace="shop",service="a"}[1m]))`: {sample(1e6)},
		`sum(rate(r{namespace="empty"}[1m]))`:            nil,
		`sum(rate(r{namespace="nan"}[1m]))`:              {sample(math.NaN(), "a", "b"), sample(math.Inf(1)), sample(1e300), sample(2, "a", "c")},
		"bill":                                           {sample(3, "__name__", "bill", "zone", "b"), sample(2, "__name__", "bill", "zone", "a"), sample(4)},
	})
	for _, c := range []struct{ namespace, selector, metric, want string }{
		{"shop", "", "rate", "map[]=12346m"},
		{"shop", "service=a", "rate", "map[]=1M"},
		{"empty", "", "rate", ""},
		{"nan", "", "rate", "map[a:c]=2"},
		{"any", "", "bill", "map[]=4 map[zone:a]=2 map[zone:b]=3"},
		{"any", "zone in (a,c)", "bill", "map[zone:a]=2"},
		{"any", "zone!=a", "bill", "map[]=4 map[zone:b]=3"},
		{"shop", "", "supercargo_desired_replicas", "map[name:web namespace:shop]=4"},
		{"shop", "name=api", "supercargo_desired_replicas", ""},
		{"empty", "", "supercargo_desired_replicas", ""},
	} {
		list, err := e.GetExternalMetric(t.Context(), c.namespace, selector(t, c.selector), provider.ExternalMetricInfo{Metric: c.metric})
		if err != nil {
			t.Errorf("%s in %s: %v", c.metric, c.namespace, err)
			continue
		}
		var got []string
		for _, item := range list.Items {
			got = append(got, fmt.Sprintf("%v=%s", item.MetricLabels, &item.Value))
			if item.MetricName != c.metric || !item.Timestamp.Time.Equal(noon) {
				t.Errorf("%s in %s: %+v", c.metric, c.namespace, item)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s in %s by %q: %v, want %s", c.metric, c.namespace, c.selector, got, c.want)
		}
	}
	want := []provider.ExternalMetricInfo{{Metric: "bill"}, {Metric: "rate"}, {Metric: "supercargo_desired_replicas"}}
	if diff := cmp.Diff(want, e.ListAllExternalMetrics()); diff != "" {
		t.Errorf("what is served (-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeAnsweredIsAnErrorOfTheRightKind(t *testing.T) {
	e := externals(t, answers{})
	for _, c := range []struct {
		metric, selector string
		is               func(error) bool
	}{
		{"unknown", "", apierrors.IsNotFound},
		{"rate", "", apierrors.IsServiceUnavailable},
		{"rate", "size>3", apierrors.IsBadRequest},
	} {
		if _, err := e.GetExternalMetric(t.Context(), "shop", selector(t, c.selector), provider.ExternalMetricInfo{Metric: c.metric}); !c.is(err) {
			t.Errorf("%s by %q: error %v", c.metric, c.selector, err)
		}
	}
	_, err := NewExternal([]adapterv1alpha1.ExternalMetric{{Name: "a", Query: plain("sum(")}, {Name: "b", Query: plain("b")}, {Name: "c", Query: plain("c[1m]")}}, answers{}, nil, now)
	if err == nil || !strings.Contains(err.Error(), "external[0].query") || !strings.Contains(err.Error(), "external[2].query") || strings.Contains(err.Error(), "external[1]") {
		t.Errorf("bad queries: error %v, want one for each of the two", err)
	}
}

// customs returns a provider with a metric of pods and one of nodes, and three pods: a and b
// with the label app=web, c without.
func customs(t *testing.T, a answers) *Custom {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for name, app := range map[string]string{"a": "web", "b": "web", "c": ""} {
		objects = append(objects, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
		})
	}
	c, err := NewCustom([]adapterv1alpha1.CustomMetric{
		{Name: "load", Query: plain("sum by (pod) (load)"), Resource: "pods", ObjectLabel: "pod"},
		{Name: "watts", Query: plain("watts"), Resource: "nodes", ObjectLabel: "node", ClusterScoped: true},
	}, a, mapper, metadatafake.NewSimpleMetadataClient(scheme, objects...), now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	load  = provider.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "pods"}, Namespaced: true, Metric: "load"}
	watts = provider.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "nodes"}, Metric: "watts"}
)

func TestCustomMetricsAreThoseOfTheObjectsAskedFor(t *testing.T) {
	c := customs(t, answers{
		`sum by (pod) (load{namespace="shop",pod=~"a|b"})`: {sample(2, "pod", "b"), sample(1.5, "pod", "a"), sample(9, "pod", "z"), sample(9)},
		`sum by (pod) (load{namespace="shop",pod="a"})`:    {sample(1.5, "pod", "a")},
		`sum by (pod) (load{namespace="shop",pod="c"})`:    {sample(math.NaN(), "pod", "c")},
		`watts{node="n1"}`: {sample(120, "__name__", "watts", "node", "n1")},
	})
	list, err := c.GetMetricBySelector(t.Context(), "shop", selector(t, "app=web"), load, kubelabels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range list.Items {
		got = append(got, fmt.Sprintf("%s %s %s/%s=%s", item.DescribedObject.APIVersion, item.DescribedObject.Kind, item.DescribedObject.Namespace, item.DescribedObject.Name, &item.Value))
	}
	if diff := cmp.Diff([]string{"v1 Pod shop/a=1500m", "v1 Pod shop/b=2"}, got); diff != "" {
		t.Errorf("by selector (-want +got):\n%s", diff)
	}
	if list, err := c.GetMetricBySelector(t.Context(), "shop", selector(t, "app=none"), load, kubelabels.Everything()); err != nil || len(list.Items) != 0 {
		t.Errorf("no objects: %v, %v", list, err)
	}
	one, err := c.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "shop", Name: "a"}, load, kubelabels.Everything())
	if err != nil || one.Value.String() != "1500m" {
		t.Errorf("by name: %v, %v", one, err)
	}
	node, err := c.GetMetricByName(t.Context(), types.NamespacedName{Name: "n1"}, watts, kubelabels.Everything())
	if err != nil || node.Value.String() != "120" || node.DescribedObject.Kind != "Node" {
		t.Errorf("of a node: %v, %v", node, err)
	}
	if _, err := c.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "shop", Name: "c"}, load, kubelabels.Everything()); !apierrors.IsNotFound(err) {
		t.Errorf("what is no number: error %v, want not found", err)
	}
	if diff := cmp.Diff([]provider.CustomMetricInfo{watts, load}, c.ListAllMetrics()); diff != "" {
		t.Errorf("what is served (-want +got):\n%s", diff)
	}
}

func TestCustomMetricsThatCannotBeToldAreErrors(t *testing.T) {
	c := customs(t, answers{`sum by (pod) (load{namespace="shop",pod="a"})`: {sample(1, "pod", "a"), sample(2, "pod", "a")}})
	name := types.NamespacedName{Namespace: "shop", Name: "a"}
	if _, err := c.GetMetricByName(t.Context(), name, load, nil); err == nil || !strings.Contains(err.Error(), "aggregate its query by (pod)") {
		t.Errorf("two values of one pod: error %v", err)
	}
	name.Name = "b"
	if _, err := c.GetMetricByName(t.Context(), name, load, nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a source that is down: error %v", err)
	}
	unknown := load
	unknown.Metric = "other"
	if _, err := c.GetMetricByName(t.Context(), name, unknown, nil); !apierrors.IsNotFound(err) {
		t.Errorf("a metric that is not there: error %v", err)
	}
	if _, err := c.GetMetricBySelector(t.Context(), "shop", kubelabels.Everything(), unknown, nil); !apierrors.IsNotFound(err) {
		t.Errorf("a metric that is not there, by selector: error %v", err)
	}
}

func TestNumbersAreServedToAThousandth(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", -2.5: "-2500m", 0.0004: "0", 0.0006: "1m", 1e12: "1T", 9.2e15: "9200T"} {
		if q, ok := quantity(v); !ok || q.String() != want {
			t.Errorf("%v is %s, %v; want %s", v, &q, ok, want)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 9.3e15, -9.3e15} {
		if q, ok := quantity(v); ok {
			t.Errorf("%v is %s; want nothing", v, &q)
		}
	}
}
