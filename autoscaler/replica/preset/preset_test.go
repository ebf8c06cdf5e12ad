package preset

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"pgregory.net/rapid"
)

func TestPresetsAreWrittenOut(t *testing.T) {
	for _, tc := range []struct {
		name, preset string
		given        map[string]string
		want         Queries
	}{
		{"an ingress", IngressNginx, map[string]string{"ingress": "web"}, Queries{
			ArrivalRate: `sum(max by (instance) (sum by (job, instance) (rate(nginx_ingress_controller_requests{exported_namespace="shop",ingress="web",status!~"1.."}[60000ms]))))`,
			ResponseTime: `sum(rate(nginx_ingress_controller_request_duration_seconds_sum{exported_namespace="shop",ingress="web",status!~"1..|5.."}[60000ms]))` +
				` / sum(rate(nginx_ingress_controller_request_duration_seconds_count{exported_namespace="shop",ingress="web",status!~"1..|5.."}[60000ms]))`,
			Percentile:  `histogram_quantile(0.95, sum by (le) (rate(nginx_ingress_controller_request_duration_seconds_bucket{exported_namespace="shop",ingress="web",status!~"1..|5.."}[60000ms])))`,
			QueueLength: `sum(max by (instance) (sum by (job, instance) (rate(nginx_ingress_controller_request_duration_seconds_sum{exported_namespace="shop",ingress="web",status!~"1.."}[60000ms]))))`,
		}},
		{"one service of it, the slowest tenth", IngressNginx, map[string]string{"ingress": "web", "service": "api", "window": "30s", "percentile": "90", "honorLabels": "true"}, Queries{
			ArrivalRate:  `sum(max by (instance) (sum by (job, instance) (rate(nginx_ingress_controller_requests{namespace="shop",ingress="web",service="api",status!~"1.."}[30000ms]))))`,
			ResponseTime: `histogram_quantile(0.9, sum by (le) (rate(nginx_ingress_controller_request_duration_seconds_bucket{namespace="shop",ingress="web",service="api",status!~"1..|5.."}[30000ms])))`,
			Percentile:   `histogram_quantile(0.9, sum by (le) (rate(nginx_ingress_controller_request_duration_seconds_bucket{namespace="shop",ingress="web",service="api",status!~"1..|5.."}[30000ms])))`,
			QueueLength:  `sum(max by (instance) (sum by (job, instance) (rate(nginx_ingress_controller_request_duration_seconds_sum{namespace="shop",ingress="web",service="api",status!~"1.."}[30000ms]))))`,
		}},
		{"all that an nginx of the namespace does", Nginx, nil, Queries{
			ArrivalRate: `clamp_min(sum(max by (instance) (sum by (job, instance) (rate(nginx_http_requests_total{namespace="shop"}[60000ms])))) - sum(max by (instance) (sum by (job, instance) (rate(nginx_status_reads_total{namespace="shop"}[60000ms])))), 0)` +
				` or sum(max by (instance) (sum by (job, instance) (rate(nginx_log_requests_total{namespace="shop",status!~"1xx"}[60000ms]))))`,
			ResponseTime: `sum(rate(nginx_log_request_duration_seconds_sum{namespace="shop",status!~"1xx|5xx"}[60000ms]))` +
				` / sum(rate(nginx_log_request_duration_seconds_count{namespace="shop",status!~"1xx|5xx"}[60000ms]))`,
			Percentile: `histogram_quantile(0.95, sum by (le) (rate(nginx_log_request_duration_seconds_bucket{namespace="shop",status!~"1xx|5xx"}[60000ms])))`,
			QueueLength: `sum(max by (instance) (sum by (job, instance) (clamp_min(nginx_connections_reading{namespace="shop"} + nginx_connections_writing{namespace="shop"} - 1, 0))))` +
				` unless on () (sum(nginx_log_requests_total{namespace="shop",status=~"1xx"}) > 0)` +
				` or sum(max by (instance) (sum by (job, instance) (rate(nginx_log_request_duration_seconds_sum{namespace="shop",status!~"1xx"}[60000ms]))))`,
		}},
		{"an upstream of an nginx elsewhere", Nginx, map[string]string{"upstream": "api", "namespace": "edge", "job": `"\`, "window": "1500ms"}, Queries{
			ArrivalRate: `sum(max by (instance) (sum by (job, instance) (rate(nginx_log_requests_total{job="\"\\",namespace="edge",upstream="api",status!~"1xx"}[1500ms]))))`,
			ResponseTime: `sum(rate(nginx_log_request_duration_seconds_sum{job="\"\\",namespace="edge",upstream="api",status!~"1xx|5xx"}[1500ms]))` +
				` / sum(rate(nginx_log_request_duration_seconds_count{job="\"\\",namespace="edge",upstream="api",status!~"1xx|5xx"}[1500ms]))`,
			Percentile:  `histogram_quantile(0.95, sum by (le) (rate(nginx_log_request_duration_seconds_bucket{job="\"\\",namespace="edge",upstream="api",status!~"1xx|5xx"}[1500ms])))`,
			QueueLength: `sum(max by (instance) (sum by (job, instance) (rate(nginx_log_request_duration_seconds_sum{job="\"\\",namespace="edge",upstream="api",status!~"1xx"}[1500ms]))))`,
		}},
		{"an nginx that nobody gave a namespace", Nginx, map[string]string{"namespace": "", "queue": "little", "percentile": "99"}, Queries{
			ArrivalRate: `clamp_min(sum(max by (instance) (sum by (job, instance) (rate(nginx_http_requests_total[60000ms])))) - sum(max by (instance) (sum by (job, instance) (rate(nginx_status_reads_total[60000ms])))), 0)` +
				` or sum(max by (instance) (sum by (job, instance) (rate(nginx_log_requests_total{status!~"1xx"}[60000ms]))))`,
			ResponseTime: `histogram_quantile(0.99, sum by (le) (rate(nginx_log_request_duration_seconds_bucket{status!~"1xx|5xx"}[60000ms])))`,
			Percentile:   `histogram_quantile(0.99, sum by (le) (rate(nginx_log_request_duration_seconds_bucket{status!~"1xx|5xx"}[60000ms])))`,
			QueueLength:  `sum(max by (instance) (sum by (job, instance) (rate(nginx_log_request_duration_seconds_sum{status!~"1xx"}[60000ms]))))`,
		}},
		{"CPU", ContainerCPU, map[string]string{"pods": "web-.*"}, Queries{
			Utilization: `100 * sum(max by (namespace, pod, container) (sum without (cpu) (rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"web-.*",container!=""}[60000ms])))` +
				` and on (namespace, pod) max by (namespace, pod, container) (kube_pod_container_resource_requests{namespace="shop",pod=~"web-.*",container!="",resource="cpu"})` +
				` and on (namespace, pod) kube_pod_status_ready{namespace="shop",pod=~"web-.*",condition="true"} == 1)` +
				` / sum(max by (namespace, pod, container) (kube_pod_container_resource_requests{namespace="shop",pod=~"web-.*",container!="",resource="cpu"})` +
				` and on (namespace, pod) max by (namespace, pod, container) (sum without (cpu) (rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"web-.*",container!=""}[60000ms])))` +
				` and on (namespace, pod) kube_pod_status_ready{namespace="shop",pod=~"web-.*",condition="true"} == 1)`,
		}},
		{"CPU of one container", ContainerCPU, map[string]string{"pods": "web-.*", "container": "app"}, Queries{
			Utilization: `100 * sum(max by (namespace, pod, container) (sum without (cpu) (rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"web-.*",container="app"}[60000ms])))` +
				` and on (namespace, pod) max by (namespace, pod, container) (kube_pod_container_resource_requests{namespace="shop",pod=~"web-.*",container="app",resource="cpu"})` +
				` and on (namespace, pod) kube_pod_status_ready{namespace="shop",pod=~"web-.*",condition="true"} == 1)` +
				` / sum(max by (namespace, pod, container) (kube_pod_container_resource_requests{namespace="shop",pod=~"web-.*",container="app",resource="cpu"})` +
				` and on (namespace, pod) max by (namespace, pod, container) (sum without (cpu) (rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"web-.*",container="app"}[60000ms])))` +
				` and on (namespace, pod) kube_pod_status_ready{namespace="shop",pod=~"web-.*",condition="true"} == 1)`,
		}},
		{"what the adapter keeps", PodUsage, map[string]string{"pods": "web-.*"}, Queries{
			Utilization: `100 * sum(supercargo_pod_used{namespace="shop",pod=~"web-.*",resource="cpu"} and supercargo_pod_requested{namespace="shop",pod=~"web-.*",resource="cpu"})` +
				` / sum(supercargo_pod_requested{namespace="shop",pod=~"web-.*",resource="cpu"} and supercargo_pod_used{namespace="shop",pod=~"web-.*",resource="cpu"})`,
		}},
		{"a Work Queue manager", WorkQueue, map[string]string{"manager": "blast", "window": "2m"}, Queries{
			ArrivalRate: `sum(rate(supercargo_workqueue_tasks_submitted_total{namespace="shop",manager="blast"}[120000ms]))`,
			QueueLength: `sum(supercargo_workqueue_tasks_waiting{namespace="shop",manager="blast"} + supercargo_workqueue_tasks_on_workers{namespace="shop",manager="blast"})`,
		}},
		{"one category of its tasks", WorkQueue, map[string]string{"manager": "blast", "category": "split"}, Queries{
			QueueLength: `sum(supercargo_workqueue_category_tasks_waiting{namespace="shop",manager="blast",category="split"}` +
				` + supercargo_workqueue_category_tasks_on_workers{namespace="shop",manager="blast",category="split"})`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := New(tc.preset, "shop", tc.given)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("queries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadParametersAreAllNamed(t *testing.T) {
	for _, tc := range []struct {
		preset string
		given  map[string]string
		says   []string
	}{
		{"apache", nil, []string{`preset "apache" is unknown`, "ingress-nginx"}},
		{IngressNginx, nil, []string{"parameter ingress is required"}},
		{IngressNginx, map[string]string{"ingress": "web", "window": "a while", "percentile": "100", "honorLabels": "perhaps", "colour": "red"},
			[]string{`window is "a while"`, `percentile is "100"`, `honorLabels is "perhaps"`, "parameter colour is unknown"}},
		{IngressNginx, map[string]string{"ingress": "web", "window": "2h", "percentile": "NaN"}, []string{"1s to 1h", `percentile is "NaN"`}},
		{Nginx, map[string]string{"upstream": "a", "queue": "connections"}, []string{"queue is", "must be little with an upstream"}},
		{Nginx, map[string]string{"queue": "long", "job": "\xff"}, []string{`queue is "long"`, `job is "\xff", must be valid UTF-8`}},
		{WorkQueue, map[string]string{"category": "split", "window": "soon"}, []string{"parameter manager is required"}},
		{WorkQueue, map[string]string{"manager": "blast", "category": "split", "window": "soon"}, []string{`window is "soon"`}},
		{ContainerCPU, map[string]string{"pods": "("}, []string{"must be a regular expression"}},
	} {
		_, err := New(tc.preset, "shop", tc.given)
		for _, says := range tc.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s %v: %v, want it to say %q", tc.preset, tc.given, err, says)
			}
		}
	}
}

// TestPrometheusReadsWhatIsAsked parses queries with Prometheus' own parser: for any
// parameters, they are a query for one value, and each label has the given value.
func TestPrometheusReadsWhatIsAsked(t *testing.T) {
	read := parser.NewParser(parser.Options{})
	values := func(t *rapid.T, query string) map[string]string {
		expr, err := read.ParseExpr(query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		found := map[string]string{}
		for _, selector := range parser.ExtractSelectors(expr) {
			for _, m := range selector {
				if m.Type == labels.MatchEqual && m.Name != model.MetricNameLabel {
					found[m.Name] = m.Value
				}
			}
		}
		return found
	}
	text := rapid.OneOf(rapid.StringN(1, 30, -1), rapid.SampledFrom([]string{`"}[1m]))or vector(1)#`, `\`, `\"`, "\n", "`", "}", "\x00", "${x}"}))
	rapid.Check(t, func(t *rapid.T) {
		namespace, job, upstream := text.Draw(t, "namespace"), text.Draw(t, "job"), text.Draw(t, "upstream")
		given := map[string]string{"job": job, "percentile": "99.9", "window": "1500ms"}
		want := map[string]string{"namespace": namespace, "job": job}
		if rapid.Bool().Draw(t, "of an upstream") {
			given["upstream"], want["upstream"] = upstream, upstream
		}
		q, err := New(Nginx, namespace, given)
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{q.ArrivalRate, q.ResponseTime, q.Percentile, q.QueueLength} {
			if diff := cmp.Diff(want, values(t, query)); diff != "" {
				t.Fatalf("%s: labels (-want +got):\n%s", query, diff)
			}
		}
		q, err = New(IngressNginx, namespace, map[string]string{"ingress": job, "service": upstream})
		if err != nil {
			t.Fatal(err)
		}
		want = map[string]string{"exported_namespace": namespace, "ingress": job, "exported_service": upstream}
		for _, query := range []string{q.ArrivalRate, q.ResponseTime, q.Percentile, q.QueueLength} {
			if diff := cmp.Diff(want, values(t, query)); diff != "" {
				t.Fatalf("%s: labels (-want +got):\n%s", query, diff)
			}
		}
		q, err = New(ContainerCPU, namespace, map[string]string{"pods": regexp.QuoteMeta(job), "container": upstream})
		if err != nil {
			t.Fatal(err)
		}
		values(t, q.Utilization)
	})
}

// TestNoParameterLeavesItsQuotes: apart from quoted strings, a query does not depend on the
// values of parameters.
func TestNoParameterLeavesItsQuotes(t *testing.T) {
	bare := func(t interface{ Fatalf(string, ...any) }, query string) string {
		var out strings.Builder
		quoted := false
		for i := 0; i < len(query); i++ {
			switch c := query[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case !quoted:
				out.WriteByte(c)
			}
		}
		if quoted {
			t.Fatalf("a quote is left open: %s", query)
		}
		return out.String()
	}
	plain, err := New(IngressNginx, "shop", map[string]string{"ingress": "a", "service": "b"})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(1, 30, -1), rapid.SampledFrom([]string{`"}[1m]))or vector(1)#`, `\`, `\"`, "\n", "`", "}"}))
		q, err := New(IngressNginx, "shop", map[string]string{"ingress": text.Draw(t, "ingress"), "service": text.Draw(t, "service")})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bare(t, q.ResponseTime), bare(t, plain.ResponseTime); got != want {
			t.Fatalf("the query became %s from %s", got, want)
		}
	})
}
