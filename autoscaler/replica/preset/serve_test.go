package preset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
)

// decoded decodes a configuration.
func decoded(t *testing.T, text string) *adapterv1alpha1.MetricsAdapterConfiguration {
	t.Helper()
	c, err := adapterv1alpha1.Decode([]byte("apiVersion: adapter.supercargo.dev/v1alpha1\nkind: MetricsAdapterConfiguration\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAPresetIsServedForWhateverIngressIsAskedFor(t *testing.T) {
	c := decoded(t, `
external: [{name: mine, query: up}]
presets: [{name: ingress-nginx, parameters: {percentile: "99"}}]`)
	before := c.DeepCopy()
	got, err := Serve(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, c); diff != "" {
		t.Errorf("the configuration that was given is changed (-want +got):\n%s", diff)
	}
	query := func(text string) adapterv1alpha1.Query {
		return adapterv1alpha1.Query{Query: text, NamespaceLabel: "exported_namespace", SelectBy: adapterv1alpha1.SelectSeries, Labels: map[string]string{"service": "exported_service"}}
	}
	const duration = "nginx_ingress_controller_request_duration_seconds"
	want := []adapterv1alpha1.ExternalMetric{
		c.External[0],
		{Name: "ingress_nginx_requests_per_second", Query: query(`sum(max by (instance) (sum by (job, instance) (rate(nginx_ingress_controller_requests{status!~"1.."}[60000ms]))))`)},
		{Name: "ingress_nginx_response_seconds", Query: query(`histogram_quantile(0.99, sum by (le) (rate(` + duration + `_bucket{status!~"1..|5.."}[60000ms])))`)},
		{Name: "ingress_nginx_response_percentile_seconds", Query: query(`histogram_quantile(0.99, sum by (le) (rate(` + duration + `_bucket{status!~"1..|5.."}[60000ms])))`)},
		{Name: "ingress_nginx_queue_length", Query: query(`sum(max by (instance) (sum by (job, instance) (rate(` + duration + `_sum{status!~"1.."}[60000ms]))))`)},
	}
	if diff := cmp.Diff(want, got.External); diff != "" {
		t.Errorf("external metrics (-want +got):\n%s", diff)
	}
	of := func(name, text string) adapterv1alpha1.CustomMetric {
		return adapterv1alpha1.CustomMetric{Name: name, Query: query(text), Group: "networking.k8s.io", Resource: "ingresses", ObjectLabel: "ingress"}
	}
	wantCustom := []adapterv1alpha1.CustomMetric{
		of("ingress_nginx_requests_per_second", `sum by (ingress) (max by (instance, ingress) (sum by (job, instance, ingress) (rate(nginx_ingress_controller_requests{status!~"1.."}[60000ms]))))`),
		of("ingress_nginx_response_seconds", `histogram_quantile(0.99, sum by (le, ingress) (rate(`+duration+`_bucket{status!~"1..|5.."}[60000ms])))`),
		of("ingress_nginx_response_percentile_seconds", `histogram_quantile(0.99, sum by (le, ingress) (rate(`+duration+`_bucket{status!~"1..|5.."}[60000ms])))`),
		of("ingress_nginx_queue_length", `sum by (ingress) (max by (instance, ingress) (sum by (job, instance, ingress) (rate(`+duration+`_sum{status!~"1.."}[60000ms]))))`),
	}
	if diff := cmp.Diff(wantCustom, got.Custom); diff != "" {
		t.Errorf("custom metrics (-want +got):\n%s", diff)
	}
}

func TestPresetsWithoutObjectsAndOfPodsAreServedToo(t *testing.T) {
	got, err := Serve(decoded(t, `
presets:
- {name: ingress-nginx, parameters: {honorLabels: "true"}}
- {name: nginx}
- {name: nginx, prefix: edge, parameters: {namespace: edge, upstream: api, queue: little}}
- {name: container-cpu}`))
	if err != nil {
		t.Fatal(err)
	}
	externals := map[string]adapterv1alpha1.ExternalMetric{}
	for _, m := range got.External {
		externals[m.Name] = m
	}
	// If clients can select an upstream, connections would be meaningless.
	if q := externals["nginx_queue_length"].Query.Query; q != `sum(max by (instance) (sum by (job, instance) (rate(nginx_log_request_duration_seconds_sum{status!~"1xx"}[60000ms]))))` {
		t.Errorf("the queue of an nginx is asked for by %s", q)
	}
	if m := externals["edge_requests_per_second"]; !m.AllNamespaces || m.Query.Query != `sum(max by (instance) (sum by (job, instance) (rate(nginx_log_requests_total{namespace="edge",upstream="api",status!~"1xx"}[60000ms]))))` {
		t.Errorf("an nginx elsewhere is asked for by %+v: want its namespace in the query, and none in the client's", m)
	}
	if m := externals["nginx_requests_per_second"]; m.AllNamespaces || m.NamespaceLabel != "namespace" {
		t.Errorf("an nginx of the namespace is asked for by %+v: want it narrowed", m)
	}
	if m := externals["ingress_nginx_requests_per_second"]; m.NamespaceLabel != "namespace" || m.Labels != nil {
		t.Errorf("with honorLabels, series are asked for by %+v: want the controller's own labels", m)
	}
	cpu := got.Custom[len(got.Custom)-1]
	want := adapterv1alpha1.CustomMetric{Name: "container_cpu_utilization_percent", Resource: "pods", ObjectLabel: "pod", Query: adapterv1alpha1.Query{
		Query: `100 * sum by (pod) (max by (namespace, pod, container) (sum without (cpu) (rate(container_cpu_usage_seconds_total{container!=""}[60000ms]))) and on (namespace, pod) max by (namespace, pod, container) (kube_pod_container_resource_requests{container!="",resource="cpu"}))` +
			` / sum by (pod) (max by (namespace, pod, container) (kube_pod_container_resource_requests{container!="",resource="cpu"}) and on (namespace, pod) max by (namespace, pod, container) (sum without (cpu) (rate(container_cpu_usage_seconds_total{container!=""}[60000ms]))))`,
		NamespaceLabel: "namespace", SelectBy: adapterv1alpha1.SelectSeries,
	}}
	if diff := cmp.Diff(want, cpu); diff != "" {
		t.Errorf("the CPU of a pod (-want +got):\n%s", diff)
	}
	for _, m := range got.Custom {
		if strings.HasPrefix(m.Name, "nginx_") || strings.HasPrefix(m.Name, "edge_") {
			t.Errorf("%s is served of %s: an nginx has no object", m.Name, m.Resource)
		}
	}
}

func TestWhatIsWrongWithAPresetIsNamed(t *testing.T) {
	for text, says := range map[string][]string{
		`presets: [{name: apache}, {name: nginx, prefix: b, parameters: {window: 2h, colour: red}}]`: {
			"presets[0]", `preset "apache" is unknown`, "presets[1]", "window is", "colour is unknown"},
		"external: [{name: nginx_queue_length, query: up}]\npresets: [{name: nginx}]": {"presets[0].prefix", "nginx_queue_length"},
		"custom: [{name: container_cpu_utilization_percent, query: up, resource: pods, objectLabel: pod}]\npresets: [{name: container-cpu}]": {
			"presets[0].prefix", "container_cpu_utilization_percent"},
	} {
		_, err := Serve(decoded(t, text))
		for _, s := range says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v, want it to say %q", text, err, s)
			}
		}
	}
}
