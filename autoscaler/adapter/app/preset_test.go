package app

import (
	"fmt"
	"math"
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
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/serve"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// sampleConfiguration returns the path of the configuration in a ConfigMap of
// manifests/samples.
func sampleConfiguration(t *testing.T, name string) string {
	t.Helper()
	text := testfile.Read(t, "../../../manifests/samples/"+name)
	first, _, _ := strings.Cut(string(text), "\n---\n")
	var object corev1.ConfigMap
	testfile.StrictYAML(t, first, &object)
	file := testfile.New(t, "metrics.yaml", object.Data["metrics.yaml"])
	return file
}

// openStore opens a store whose clock shows noon.
func openStore(t *testing.T) (*store.Store, *clocktesting.FakePassiveClock) {
	t.Helper()
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	o := store.Defaults()
	o.Dir, o.Clock, o.Registerer = t.TempDir(), now, prometheus.NewRegistry()
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, now
}

// answer is the response that a HorizontalPodAutoscaler gets for an external metric in a
// namespace.
type answer struct{ namespace, selector, metric, want string }

// answers queries the external metrics of a configuration at the time of the store.
func answers(t *testing.T, c *adapterv1alpha1.MetricsAdapterConfiguration, s *store.Store, now clock.PassiveClock, all []answer) {
	t.Helper()
	external, err := serve.NewExternal(c.External, s, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		chosen, err := kubelabels.Parse(a.selector)
		if err != nil {
			t.Fatal(err)
		}
		list, err := external.GetExternalMetric(t.Context(), a.namespace, chosen, provider.ExternalMetricInfo{Metric: a.metric})
		if err != nil {
			t.Errorf("%s in %s: %v", a.metric, a.namespace, err)
			continue
		}
		values := []string{}
		for _, item := range list.Items {
			values = append(values, item.Value.String())
		}
		if got := fmt.Sprint(values); got != a.want {
			t.Errorf("%s in %s by %q is %s, want %s", a.metric, a.namespace, a.selector, got, a.want)
		}
	}
}

// TestCountersThatBeginAgainAreMended: nginx and its exporter restart in the middle of the
// window, and the rates remain right.
func TestCountersThatBeginAgainAreMended(t *testing.T) {
	s, now := openStore(t)
	const restart = 30 // seconds before now; scraped every 5 s
	for ago := 60; ago >= 0; ago -= 5 {
		since := float64(1000 - ago)
		if ago <= restart {
			since = float64(restart - ago)
		}
		a, at := s.Appender(t.Context()), now.Now().Add(-time.Duration(ago)*time.Second)
		for name, rate := range map[string]float64{
			"nginx_http_requests_total": 20.2, "nginx_status_reads_total": 0.2, "nginx_log_requests_total": 20,
			"nginx_log_request_duration_seconds_sum": 2, "nginx_log_request_duration_seconds_count": 20,
		} {
			series := labels.FromStrings("__name__", name, "namespace", "shop", "upstream", "web", "status", "2xx")
			if _, err := a.Append(0, series, 0, at.UnixMilli(), rate*since, nil, nil, storage.AOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	q, err := preset.New(preset.Nginx, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]float64{q.ArrivalRate: 20, q.ResponseTime: 0.1} {
		found, err := s.Query(t.Context(), query, now.Now())
		// One of the twelve steps is lost with the restart.
		if err != nil || len(found) != 1 || !(math.Abs(found[0].Value-want) <= want/10) {
			t.Errorf("%s: %v, %v, want about %v", query, found, err, want)
		}
	}
}

// TestTheSampleServesIngressesByName stores metrics of the ingress-nginx controller for two
// ingresses, and queries both APIs with a configuration of presets only.
func TestTheSampleServesIngressesByName(t *testing.T) {
	c, err := load(sampleConfiguration(t, "metrics-adapter.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s, now := openStore(t)
	noon := now.Now()
	// A minute of requests that take 80 ms, scraped every 15 s from the controller's pod.
	for step := range 5 {
		a := s.Appender(t.Context())
		put := func(in, name string, perSecond float64, pairs ...string) {
			t.Helper()
			series := labels.FromStrings(append(pairs, "__name__", name, "namespace", in, "job", "pods")...)
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
			put("ingress-nginx", "nginx_ingress_controller_requests", of.rate, names...)
			put("ingress-nginx", duration+"_sum", of.rate*0.08, names...)
			put("ingress-nginx", duration+"_count", of.rate, names...)
			put("ingress-nginx", duration+"_bucket", of.rate, append(names, "le", "0.1")...)
			put("ingress-nginx", duration+"_bucket", of.rate, append(names, "le", "+Inf")...)
		}
		// An nginx in the namespace answers half of the requests and serves its status.
		put("shop", "nginx_http_requests_total", 41)
		put("shop", "nginx_status_reads_total", 1)
		put("shop", "nginx_log_requests_total", 20, "upstream", "web", "status", "2xx")
		if err := a.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	answers(t, c, s, now, []answer{
		{"shop", "", "ingress_nginx_requests_per_second", "[29]"},
		{"shop", "ingress=web", "ingress_nginx_requests_per_second", "[25]"},
		{"shop", "ingress=web,service=s", "ingress_nginx_queue_length", "[2]"},
		{"shop", "ingress=web", "ingress_nginx_response_percentile_seconds", "[99m]"},
		{"bank", "service=t", "ingress_nginx_requests_per_second", "[]"},
		{"other", "", "ingress_nginx_requests_per_second", "[]"},
		{"shop", "", "nginx_requests_per_second", "[40]"},
		{"shop", "upstream=web", "nginx_requests_per_second", "[20]"},
		{"bank", "", "nginx_requests_per_second", "[]"},
	})
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
