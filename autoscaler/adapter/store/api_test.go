package store

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// served returns a server for a store with ten seconds of two series, and Prometheus' own client
// for it.
func served(t *testing.T) (*httptest.Server, promv1.API) {
	t.Helper()
	s := open(t, t.TempDir(), noon, nil)
	for i := range 11 {
		at := noon.Add(time.Duration(i) * time.Second)
		put(t, s, at, float64(i), "__name__", "a", "pod", "x")
		put(t, s, at, float64(2*i), "__name__", "b", "pod", "y")
	}
	server := httptest.NewServer(s.Handler(func() time.Time { return noon.Add(10 * time.Second) }))
	t.Cleanup(server.Close)
	client, err := promapi.NewClient(promapi.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return server, promv1.NewAPI(client)
}

// servedAfter returns a server for a store, opened at noon, with samples every 15 s of a counter that grows by ten a
// second, until some time after noon.
func servedAfter(t *testing.T, until time.Duration) (*httptest.Server, promv1.API) {
	t.Helper()
	s := open(t, t.TempDir(), noon, nil)
	for d := 10 * time.Second; d <= until; d += 15 * time.Second {
		put(t, s, noon.Add(d), 1e6+10*d.Seconds(), "__name__", "a", "pod", "x")
	}
	server := httptest.NewServer(s.Handler(func() time.Time { return noon.Add(until) }))
	t.Cleanup(server.Close)
	client, err := promapi.NewClient(promapi.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return server, promv1.NewAPI(client)
}

func TestPrometheusOwnClientIsAnswered(t *testing.T) {
	_, client := served(t)
	ctx, end := t.Context(), noon.Add(10*time.Second)
	show := func(value any, _ promv1.Warnings, err error) string {
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(value)
	}
	v, w, err := client.Query(ctx, "a", end)
	if got, want := show(v, w, err), `a{pod="x"} => 10 @[1767355210]`; got != want {
		t.Errorf("a query: %s, want %s", got, want)
	}
	v, w, err = client.Query(ctx, "3", end)
	if got, want := show(v, w, err), "scalar: 3 @[1767355210]"; got != want {
		t.Errorf("a scalar: %s, want %s", got, want)
	}
	v, w, err = client.QueryRange(ctx, "a + on() b", promv1.Range{Start: noon, End: end, Step: 5 * time.Second})
	if got, want := show(v, w, err), "{} =>\n0 @[1767355200]\n15 @[1767355205]\n30 @[1767355210]"; got != want {
		t.Errorf("a range: %s, want %s", got, want)
	}
	series, w, err := client.Series(ctx, []string{"a", `{pod=~"x|y"}`}, noon, end)
	if got, want := show(series, w, err), `[{__name__="a", pod="x"} {__name__="b", pod="y"}]`; got != want {
		t.Errorf("series: %s, want %s", got, want)
	}
	names, w, err := client.LabelNames(ctx, nil, noon, end)
	if got, want := show(names, w, err), "__name__, pod"; got != want {
		t.Errorf("names of labels: %s, want %s", got, want)
	}
	values, w, err := client.LabelValues(ctx, "pod", []string{"b"}, noon, end)
	if got, want := show(values, w, err), "[y]"; got != want {
		t.Errorf("values of a label: %s, want %s", got, want)
	}
	if _, err := client.Buildinfo(ctx); err != nil {
		t.Error(err)
	}
}

func TestAClientMayTakeSamplesForCurrentForAShorterTime(t *testing.T) {
	_, client := served(t)
	for lookback, want := range map[time.Duration]string{time.Second: "", 3 * time.Second: `a{pod="x"} => 10 @[1767355212]`} {
		v, _, err := client.Query(t.Context(), "a", noon.Add(12*time.Second), promv1.WithLookbackDelta(lookback))
		if err != nil || fmt.Sprint(v) != want {
			t.Errorf("2 s after the last sample, with %v: %v, %v; want %s", lookback, v, err, want)
		}
	}
}

func TestFaultyRequestsAreAnsweredAsPrometheusDoes(t *testing.T) {
	server, _ := served(t)
	many := url.Values{"query": {"a"}, "start": {"0"}, "end": {"20000"}, "step": {"1"}}.Encode()
	for _, c := range []struct {
		path, kind, says string
		status           int
	}{
		{"query?query=sum(", "bad_data", "parse error", 400},
		{"query?query=a&time=yesterday", "bad_data", `"time"`, 400},
		{"query?query=a&time=NaN", "bad_data", `"time"`, 400},
		{"query?query=a&time=1e300", "bad_data", `"time"`, 400},
		{"query?query=a&lookback_delta=x", "bad_data", `"lookback_delta"`, 400},
		{"query?query=a&lookback_delta=0s", "bad_data", `"lookback_delta"`, 400},
		{"query?query=a&timeout=x", "bad_data", `"timeout"`, 400},
		{"query?query=a&timeout=0", "timeout", "", 503},
		{"query?query=a+%2B+on()+{pod=~%22x|y%22}", "execution", "duplicate series", 422},
		{"query_range?query=a&start=1&end=2", "bad_data", `"step"`, 400},
		{"query_range?query=a&end=2&step=1", "bad_data", `"start"`, 400},
		{"query_range?query=a&start=3&end=2&step=1", "bad_data", `"end"`, 400},
		{"query_range?query=a&start=1&end=2&step=0", "bad_data", `"step"`, 400},
		{"query_range?" + many, "bad_data", "11000 points", 400},
		{"series", "bad_data", "match[]", 400},
		{"series?match[]={", "bad_data", "match[]", 400},
		{"label/a-b/values", "bad_data", "label", 400},
	} {
		response, err := http.Get(server.URL + "/api/v1/" + c.path)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Status, ErrorType, Error string }
		err = json.NewDecoder(response.Body).Decode(&got)
		response.Body.Close()
		if err != nil || response.StatusCode != c.status || got.Status != "error" || got.ErrorType != c.kind || !strings.Contains(got.Error, c.says) {
			t.Errorf("%s: %d %+v (%v), want %d and %s with %q", c.path, response.StatusCode, got, err, c.status, c.kind, c.says)
		}
	}
}

func TestNumbersThatJSONDoesNotHaveAreText(t *testing.T) {
	server, _ := served(t)
	response, err := http.PostForm(server.URL+"/api/v1/query", url.Values{"query": {"a / 0"}, "time": {"2026-01-02T12:00:00Z"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got any
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": []any{
		map[string]any{"metric": map[string]any{"pod": "x"}, "value": []any{1767355200.0, "NaN"}}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("0/0 (-want +got):\n%s", diff)
	}
}

func FuzzTime(f *testing.F) {
	for _, seed := range []string{"0", "1767355200.123", "-5", "2026-01-02T12:00:00Z", "1e12", "NaN", "Inf", "now", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseTime(text)
		if err != nil {
			return
		}
		if s := at.Unix(); s > mostSeconds || s < -mostSeconds-1 {
			t.Errorf("%q gives %v", text, at)
		}
		if again, err := parseTime(at.Truncate(time.Millisecond).Format(time.RFC3339Nano)); err == nil && !again.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("%q gives %v, and that %v", text, at, again)
		}
	})
}
