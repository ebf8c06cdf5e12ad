package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/autoscaler/adapter/serve"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
)

// sampleConfiguration is the file in the ConfigMap of manifests/samples.
func sampleConfiguration(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../manifests/samples/metrics-adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict([]byte(first), &object); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "metrics.yaml")
	if err := os.WriteFile(file, []byte(object.Data["metrics.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTheSampleServesIngressesByName puts what ingress-nginx's controller says of two
// ingresses into the store, and asks both APIs of a configuration that has presets alone.
func TestTheSampleServesIngressesByName(t *testing.T) {
	c, err := load(sampleConfiguration(t))
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now := clocktesting.NewFakePassiveClock(noon)
	o := store.Defaults()
	o.Dir, o.Clock, o.Registerer = t.TempDir(), now, prometheus.NewRegistry()
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	// A minute of requests that take 80 ms, scraped every 15 s from the controller's pod.
	for step := range 5 {
		a := s.Appender(t.Context())
		put := func(name string, perSecond float64, pairs ...string) {
			t.Helper()
			series := labels.FromStrings(append(pairs, "__name__", name, "namespace", "ingress-nginx", "job", "pods")...)
			at := noon.Add(time.Duration(step-4) * 15 * time.Second)
			if _, err := a.Append(0, series, 0, at.UnixMilli(), perSecond*float64(15*step), nil, nil, storage.AOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, of := range []struct {
			namespace, ingress string
			rate               float64
		}{{"shop", "web", 25}, {"shop", "api", 4}, {"bank", "web", 1000}} {
			names := []string{"exported_namespace", of.namespace, "ingress", of.ingress, "exported_service", "s", "status", "200"}
			const duration = "nginx_ingress_controller_request_duration_seconds"
			put("nginx_ingress_controller_requests", of.rate, names...)
			put(duration+"_sum", of.rate*0.08, names...)
			put(duration+"_count", of.rate, names...)
			put(duration+"_bucket", of.rate, append(names, "le", "0.1")...)
			put(duration+"_bucket", of.rate, append(names, "le", "+Inf")...)
		}
		if err := a.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	external, err := serve.NewExternal(c.External, s, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ namespace, selector, metric, want string }{
		{"shop", "", "ingress_nginx_requests_per_second", "[29]"},
		{"shop", "ingress=web", "ingress_nginx_requests_per_second", "[25]"},
		{"shop", "ingress=web,service=s", "ingress_nginx_queue_length", "[2]"},
		{"shop", "ingress=web", "ingress_nginx_response_percentile_seconds", "[99m]"},
		{"bank", "service=t", "ingress_nginx_requests_per_second", "[]"},
		{"other", "", "ingress_nginx_requests_per_second", "[]"},
		{"shop", "", "nginx_requests_per_second", "[]"},
	} {
		chosen, err := kubelabels.Parse(tc.selector)
		if err != nil {
			t.Fatal(err)
		}
		list, err := external.GetExternalMetric(t.Context(), tc.namespace, chosen, provider.ExternalMetricInfo{Metric: tc.metric})
		if err != nil {
			t.Errorf("%s in %s: %v", tc.metric, tc.namespace, err)
			continue
		}
		values := []string{}
		for _, item := range list.Items {
			values = append(values, item.Value.String())
		}
		if got := fmt.Sprint(values); got != tc.want {
			t.Errorf("%s in %s by %q is %s, want %s", tc.metric, tc.namespace, tc.selector, got, tc.want)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, meta.RESTScopeNamespace)
	custom, err := serve.NewCustom(c.Custom, s, mapper, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	info := provider.CustomMetricInfo{GroupResource: schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}, Namespaced: true, Metric: "ingress_nginx_requests_per_second"}
	value, err := custom.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, info, nil)
	if err != nil || value.Value.String() != "25" || value.DescribedObject.Kind != "Ingress" {
		t.Errorf("the Ingress shop/web: %+v, %v, want 25", value, err)
	}
}
