package preset

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatEachPresetAsks(t *testing.T) {
	tests := []struct {
		name, preset string
		params       map[string]string
		want         Queries
	}{
		{"an ingress", IngressNginx, map[string]string{"namespace": "shop", "ingress": "front"}, Queries{
			ArrivalRate: `sum(rate(nginx_ingress_controller_requests{namespace="shop",ingress="front"}[60s]))`,
			ResponseTime: `sum(rate(nginx_ingress_controller_request_duration_seconds_sum{namespace="shop",ingress="front",status!~"5.."}[60s]))` +
				` / sum(rate(nginx_ingress_controller_request_duration_seconds_count{namespace="shop",ingress="front",status!~"5.."}[60s]))`,
			Percentile:  `histogram_quantile(0.95, sum by (le) (rate(nginx_ingress_controller_request_duration_seconds_bucket{namespace="shop",ingress="front",status!~"5.."}[60s])))`,
			QueueLength: `sum(rate(nginx_ingress_controller_request_duration_seconds_sum{namespace="shop",ingress="front"}[60s]))`,
		}},
		{"a service, with everything", IngressNginx, map[string]string{"namespace": "shop", "ingress": "front", "service": "cart", "workload": "cart.v2",
			"job": "ingress", "exported": "true", "window": "1500ms", "percentile": "0.999"}, Queries{
			ArrivalRate: `sum(rate(nginx_ingress_controller_requests{job="ingress",exported_namespace="shop",ingress="front",exported_service="cart"}[1500ms]))`,
			ResponseTime: `sum(rate(nginx_ingress_controller_request_duration_seconds_sum{job="ingress",exported_namespace="shop",ingress="front",exported_service="cart",status!~"5.."}[1500ms]))` +
				` / sum(rate(nginx_ingress_controller_request_duration_seconds_count{job="ingress",exported_namespace="shop",ingress="front",exported_service="cart",status!~"5.."}[1500ms]))`,
			Percentile: `histogram_quantile(0.999, sum by (le) (rate(nginx_ingress_controller_request_duration_seconds_bucket{job="ingress",exported_namespace="shop",ingress="front",` +
				`exported_service="cart",status!~"5.."}[1500ms])))`,
			QueueLength: `sum(rate(nginx_ingress_controller_request_duration_seconds_sum{job="ingress",exported_namespace="shop",ingress="front",exported_service="cart"}[1500ms]))`,
			Utilization: `100 * sum(rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"cart\\.v2-.+",container!=""}[1500ms]))` +
				` / sum(kube_pod_container_resource_requests{namespace="shop",pod=~"cart\\.v2-.+",resource="cpu"})`,
		}},
		{"a whole nginx", Nginx, nil, Queries{
			ArrivalRate: `sum(rate(nginx_log_requests_total[60s]))`,
			ResponseTime: `sum(rate(nginx_log_request_duration_seconds_sum{status!="5xx"}[60s]))` +
				` / sum(rate(nginx_log_request_duration_seconds_count{status!="5xx"}[60s]))`,
			Percentile:  `histogram_quantile(0.95, sum by (le) (rate(nginx_log_request_duration_seconds_bucket{status!="5xx"}[60s])))`,
			QueueLength: `sum(clamp_min(nginx_connections_reading + nginx_connections_writing - 1, 0))`,
		}},
		{"a service of an nginx, whose name tries to say more", Nginx, map[string]string{"service": `a"} or vector(1) or x{y="`, "job": `\"`, "window": "10s"}, Queries{
			ArrivalRate: `sum(rate(nginx_log_requests_total{job="\\\"",service="a\"} or vector(1) or x{y=\""}[10s]))`,
			ResponseTime: `sum(rate(nginx_log_request_duration_seconds_sum{job="\\\"",service="a\"} or vector(1) or x{y=\"",status!="5xx"}[10s]))` +
				` / sum(rate(nginx_log_request_duration_seconds_count{job="\\\"",service="a\"} or vector(1) or x{y=\"",status!="5xx"}[10s]))`,
			Percentile:  `histogram_quantile(0.95, sum by (le) (rate(nginx_log_request_duration_seconds_bucket{job="\\\"",service="a\"} or vector(1) or x{y=\"",status!="5xx"}[10s])))`,
			QueueLength: `sum(rate(nginx_log_request_duration_seconds_sum{job="\\\"",service="a\"} or vector(1) or x{y=\""}[10s]))`,
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := New(tc.preset, tc.params)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got\n%+v, want\n%+v", got, tc.want)
			}
		})
	}
}

func TestParametersThatCannotBeAreRefusedTogether(t *testing.T) {
	tests := []struct {
		preset string
		params map[string]string
		want   []string
	}{
		{"apache", nil, []string{`"apache"`, "ingress-nginx, nginx"}},
		{IngressNginx, nil, []string{"parameter namespace is missing", "parameter ingress and service are missing"}},
		{IngressNginx, map[string]string{"namespace": `a"`, "ingress": "-", "service": "", "workload": "A", "exported": "yes", "queue": "little", "window": "0s", "percentile": "1"},
			[]string{"parameter namespace", "parameter ingress", "parameter service", "parameter workload", "parameter exported", "parameter queue is not known",
				"parameter window", "parameter percentile"}},
		{Nginx, map[string]string{"service": "web", "queue": "connections"}, []string{`parameter queue "connections": want little`}},
		{Nginx, map[string]string{"namespace": "shop"}, []string{"parameter namespace is of no use without workload"}},
		{Nginx, map[string]string{"workload": "web"}, []string{"parameter namespace is missing"}},
		{Nginx, map[string]string{"service": "\xff", "job": "", "window": "1000000000ns1ns", "percentile": "NaN"},
			[]string{"parameter service", "parameter job", "parameter window", "parameter percentile"}},
	}
	for _, tc := range tests {
		got, err := New(tc.preset, tc.params)
		if got != (Queries{}) {
			t.Errorf("%s %v: queries beside an error", tc.preset, tc.params)
		}
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %v: error %v, want %q in it", tc.preset, tc.params, err, want)
			}
		}
	}
}

func TestEveryPresetIsDescribedWithItsParameters(t *testing.T) {
	if !slices.Equal(Names(), []string{"ingress-nginx", "nginx"}) {
		t.Errorf("presets %v", Names())
	}
	for _, name := range Names() {
		for _, param := range presets[name].params {
			if !strings.Contains(Describe(name), param) {
				t.Errorf("%s: %q does not name %s", name, Describe(name), param)
			}
		}
	}
	if Describe("apache") != "" {
		t.Error("an unknown preset is described")
	}
}

// TestValuesStayInsideTheirQuotes takes the quoted strings out of each query: what
// is left depends on which parameters are given, never on what they say.
func TestValuesStayInsideTheirQuotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := map[string]string{"service": rapid.StringN(1, 60, 253).Draw(t, "service"), "job": rapid.StringN(1, 60, 253).Draw(t, "job")}
		plain := maps.Clone(params)
		for key := range plain {
			plain[key] = "x"
		}
		got, err := New(Nginx, params)
		want, wantErr := New(Nginx, plain)
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		for _, pair := range [][2]string{{got.ArrivalRate, want.ArrivalRate}, {got.ResponseTime, want.ResponseTime}, {got.Percentile, want.Percentile}, {got.QueueLength, want.QueueLength}} {
			if unquoted(pair[0]) != unquoted(pair[1]) {
				t.Errorf("%s\nsays more than\n%s", pair[0], pair[1])
			}
		}
	})
}

// unquoted leaves out what stands in double quotes, by PromQL's rules for them.
func unquoted(s string) string {
	var b strings.Builder
	inside := false
	for i := 0; i < len(s); i++ {
		switch {
		case inside && s[i] == '\\':
			i++
		case s[i] == '"':
			inside = !inside
		case !inside:
			b.WriteByte(s[i])
		case s[i] == '\n':
			b.WriteString("<a line end inside quotes>")
		}
	}
	if inside {
		b.WriteString("<no end>")
	}
	return b.String()
}
