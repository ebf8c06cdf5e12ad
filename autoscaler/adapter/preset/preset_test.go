package preset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPresetsAreWrittenOut(t *testing.T) {
	for _, tc := range []struct {
		name, preset string
		given        map[string]string
		want         Queries
	}{
		{"an ingress", IngressNginx, map[string]string{"ingress": "web"}, Queries{
			ArrivalRate: `sum(rate(nginx_ingress_controller_requests{exported_namespace="shop",ingress="web"}[60000ms]))`,
			ResponseTime: `sum(rate(nginx_ingress_controller_request_duration_seconds_sum{exported_namespace="shop",ingress="web"}[60000ms]))` +
				` / sum(rate(nginx_ingress_controller_request_duration_seconds_count{exported_namespace="shop",ingress="web"}[60000ms]))`,
			QueueLength: `sum(rate(nginx_ingress_controller_request_duration_seconds_sum{exported_namespace="shop",ingress="web"}[60000ms]))`,
		}},
		{"one service of it, the slowest twentieth", IngressNginx, map[string]string{"ingress": "web", "service": "api", "window": "30s", "percentile": "95", "honorLabels": "true"}, Queries{
			ArrivalRate:  `sum(rate(nginx_ingress_controller_requests{namespace="shop",ingress="web",service="api"}[30000ms]))`,
			ResponseTime: `histogram_quantile(0.95, sum by (le) (rate(nginx_ingress_controller_request_duration_seconds_bucket{namespace="shop",ingress="web",service="api"}[30000ms])))`,
			QueueLength:  `sum(rate(nginx_ingress_controller_request_duration_seconds_sum{namespace="shop",ingress="web",service="api"}[30000ms]))`,
		}},
		{"CPU", ContainerCPU, map[string]string{"pods": "web-.*"}, Queries{
			Utilization: `100 * sum(rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"web-.*",container!=""}[60000ms]))` +
				` / sum(kube_pod_container_resource_requests{namespace="shop",pod=~"web-.*",container!="",resource="cpu"})`,
		}},
		{"CPU of one container", ContainerCPU, map[string]string{"pods": "web-.*", "container": "app"}, Queries{
			Utilization: `100 * sum(rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"web-.*",container="app"}[60000ms]))` +
				` / sum(kube_pod_container_resource_requests{namespace="shop",pod=~"web-.*",container="app",resource="cpu"})`,
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
		{"apache", nil, []string{`preset "apache" is not known`, "ingress-nginx"}},
		{IngressNginx, nil, []string{"parameter ingress is missing"}},
		{IngressNginx, map[string]string{"ingress": "web", "window": "a while", "percentile": "100", "honorLabels": "perhaps", "colour": "red"},
			[]string{`window is "a while"`, `percentile is "100"`, `honorLabels is "perhaps"`, "parameter colour is not known"}},
		{IngressNginx, map[string]string{"ingress": "web", "window": "2h", "percentile": "NaN"}, []string{"1s to 1h", `percentile is "NaN"`}},
		{ContainerCPU, map[string]string{"pods": "("}, []string{"want a regular expression"}},
	} {
		_, err := New(tc.preset, "shop", tc.given)
		for _, says := range tc.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s %v: %v, want it to say %q", tc.preset, tc.given, err, says)
			}
		}
	}
}

// TestNoParameterLeavesItsQuotes: without what stands in quotes, a query is the same
// whatever the parameters say.
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
		text := rapid.OneOf(rapid.StringN(1, 30, -1), rapid.SampledFrom([]string{`"}[1m]))or vector(1)#`, `\`, `\"`, "\n", "`", "\xff"}))
		q, err := New(IngressNginx, "shop", map[string]string{"ingress": text.Draw(t, "ingress"), "service": text.Draw(t, "service")})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bare(t, q.ResponseTime), bare(t, plain.ResponseTime); got != want {
			t.Fatalf("the query became %s from %s", got, want)
		}
	})
}
