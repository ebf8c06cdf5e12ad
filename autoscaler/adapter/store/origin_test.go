package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

func TestOriginsAreWhereTheSeriesThatAQueryReadsWereScraped(t *testing.T) {
	s := open(t, t.TempDir(), noon, nil)
	if found, err := s.Origins(t.Context(), "up"); err != nil || len(found) != 0 {
		t.Errorf("of an empty store: %v, %v", found, err)
	}
	put(t, s, noon, 1, "__name__", "a", "job", "pods", "instance", "one:80", "namespace", "shop")
	put(t, s, noon, 1, "__name__", "a", "job", "pods", "instance", "one:80", "namespace", "shop", "code", "500")
	put(t, s, noon, 1, "__name__", "a", "job", "pods", "instance", "two:80", "namespace", "edge")
	put(t, s, noon, 1, "__name__", "b", "job", "db", "instance", "three:80", "namespace", "shop")
	put(t, s, noon, 1, "__name__", "recorded", "namespace", "shop")
	one, two, three := Origin{"pods", "one:80"}, Origin{"pods", "two:80"}, Origin{"db", "three:80"}
	for expression, want := range map[string][]Origin{
		`a`:                                  {one, two},
		`sum(rate(a{namespace="shop"}[5s]))`: {one},
		`a{code="500"} / on() b offset 5m`:   {one, three},
		`sum_over_time(b[1h:1s])`:            {three},
		`a{namespace!~"s.*"}`:                {two},
		`recorded`:                           {{}},
		`absent`:                             {},
		`1 + time()`:                         {},
	} {
		wanted := map[Origin]bool{}
		for _, o := range want {
			wanted[o] = true
		}
		found, err := s.Origins(t.Context(), expression)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expression, diff)
		}
	}
	if _, err := s.Origins(t.Context(), "sum("); err == nil || !strings.Contains(err.Error(), `"sum("`) {
		t.Errorf("error %v, want one with the expression", err)
	}
}

// BenchmarkOrigins measures finding the origins of a preset's query in a full store.
func BenchmarkOrigins(b *testing.B) {
	s := open(b, b.TempDir(), noon, nil)
	a := s.Appender(b.Context())
	const pods, each = 1000, 49
	for pod := range pods {
		for i := range each {
			l := labels.FromStrings("__name__", fmt.Sprint("metric_", i), "namespace", fmt.Sprint("n", pod/10), "job", "pods", "instance", fmt.Sprint("10.0.0.", pod), "status", "2xx")
			if _, err := a.Append(0, l, 0, noon.UnixMilli(), 1, nil, nil, storage.AOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := a.Commit(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		found, err := s.Origins(b.Context(), `sum(rate(metric_7{namespace="n42",status!="5xx"}[1m])) / sum(rate(metric_8{namespace="n42",status!="5xx"}[1m]))`)
		if err != nil || len(found) != 10 {
			b.Fatal(found, err)
		}
	}
}
