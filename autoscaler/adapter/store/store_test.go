package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/internal/platform/promql"
)

// noon is the current time in tests with a fake clock.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// open opens a store in a directory, at a time, and closes it when the test ends.
func open(t testing.TB, dir string, at time.Time, change func(*Options)) *Store {
	t.Helper()
	o := Defaults()
	o.Dir, o.Clock, o.Registerer = dir, clocktesting.NewFakePassiveClock(at), prometheus.NewRegistry()
	if change != nil {
		change(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// put adds a sample to a series.
func put(t testing.TB, s *Store, at time.Time, value float64, series ...string) {
	t.Helper()
	if err := tryPut(t.Context(), s, at, value, series...); err != nil {
		t.Fatal(err)
	}
}

func tryPut(ctx context.Context, s *Store, at time.Time, value float64, series ...string) error {
	a := s.Appender(ctx)
	if _, err := a.Append(0, labels.FromStrings(series...), 0, at.UnixMilli(), value, nil, nil, storage.AOptions{}); err != nil {
		return errors.Join(err, a.Rollback())
	}
	return a.Commit()
}

// ask returns the result of a query, sorted by labels.
func ask(t testing.TB, s *Store, expression string, at time.Time) []promql.Sample {
	t.Helper()
	found, err := s.Query(t.Context(), expression, at)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b promql.Sample) int { return strings.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)) })
	for i := range found {
		found[i].At = found[i].At.UTC()
	}
	return found
}

func TestWhatIsPutIsFoundByPromQL(t *testing.T) {
	s := open(t, t.TempDir(), noon, nil)
	for i := range 11 {
		at := noon.Add(time.Duration(i) * time.Second)
		put(t, s, at, float64(30*i), "__name__", "requests_total", "pod", "a")
		put(t, s, at, float64(10*i), "__name__", "requests_total", "pod", "b")
	}
	at := noon.Add(10 * time.Second)
	for _, c := range []struct {
		query string
		want  []promql.Sample
	}{
		{"requests_total", []promql.Sample{
			{Labels: map[string]string{"__name__": "requests_total", "pod": "a"}, Value: 300, At: at},
			{Labels: map[string]string{"__name__": "requests_total", "pod": "b"}, Value: 100, At: at}}},
		{"sum(rate(requests_total[10s]))", []promql.Sample{{Labels: map[string]string{}, Value: 40, At: at}}},
		{`rate(requests_total{pod="b"}[10s])`, []promql.Sample{{Labels: map[string]string{"pod": "b"}, Value: 10, At: at}}},
		{"2 + 2", []promql.Sample{{Labels: map[string]string{}, Value: 4, At: at}}},
		{"absent_series", []promql.Sample{}},
	} {
		if diff := cmp.Diff(c.want, ask(t, s, c.query, at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.query, diff)
		}
	}
}

func TestWhatIsNoNumberAtAMomentIsRefused(t *testing.T) {
	s := open(t, t.TempDir(), noon, nil)
	put(t, s, noon, 1, "__name__", "up")
	for _, expression := range []string{"up[1m]", `"text"`, "sum(", "rate(up)", ""} {
		_, err := s.Query(t.Context(), expression, noon)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("query %q of the embedded store", expression)) {
			t.Errorf("%s: error %v, want one with the expression", expression, err)
		}
	}
}

func TestAValueIsCurrentForTheLookbackAndNoLonger(t *testing.T) {
	s := open(t, t.TempDir(), noon, func(o *Options) { o.Lookback = 10 * time.Second })
	put(t, s, noon, 1, "__name__", "up")
	for after, want := range map[time.Duration]int{-time.Millisecond: 0, 0: 1, 9999 * time.Millisecond: 1, 10 * time.Second: 0, time.Hour: 0} {
		if got := len(ask(t, s, "up", noon.Add(after))); got != want {
			t.Errorf("%v after the sample there are %d values, want %d", after, got, want)
		}
	}
}

func TestARestartContinuesWithWhatWasMeasuredButDoesNotTakeItForCurrent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	o := Defaults()
	o.Dir, o.Clock = dir, clocktesting.NewFakePassiveClock(noon)
	first, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		put(t, first, noon.Add(time.Duration(i)*time.Second), float64(10*i), "__name__", "requests_total", "pod", "stays")
		put(t, first, noon.Add(time.Duration(i)*time.Second), float64(10*i), "__name__", "requests_total", "pod", "goes")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := noon.Add(15 * time.Second)
	s := open(t, dir, again, nil)
	if found := ask(t, s, "requests_total", again); len(found) != 0 {
		t.Errorf("after a restart these are taken for current: %v", found)
	}
	if found := ask(t, s, "requests_total", noon.Add(9*time.Second)); len(found) != 2 {
		t.Errorf("what was measured before the restart is gone: %v", found)
	}
	put(t, s, again.Add(5*time.Second), 200, "__name__", "requests_total", "pod", "stays")
	found := ask(t, s, "count_over_time(requests_total[30s])", again.Add(5*time.Second))
	if len(found) != 2 || found[0].Value != 10 || found[1].Labels["pod"] != "stays" || found[1].Value != 11 {
		t.Errorf("over the restart there are %v, want the 10 samples of before, and 11 of the one that stays", found)
	}
}

func TestSeriesBeyondTheLimitAreRefusedAndCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	dir := t.TempDir()
	s, err := Open(func() Options { o := Defaults(); o.Dir, o.MaxSeries, o.Registerer = dir, 3, registry; return o }())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		put(t, s, noon, 1, "__name__", "up", "pod", fmt.Sprint(i))
	}
	if err := tryPut(t.Context(), s, noon, 1, "__name__", "up", "pod", "3"); !errors.Is(err, errSeriesLimit) {
		t.Errorf("the fourth series of three: error %v, want %v", err, errSeriesLimit)
	}
	put(t, s, noon.Add(time.Second), 1, "__name__", "up", "pod", "2") // an existing series
	if got := s.Series(); got != 3 {
		t.Errorf("there are %d series, want 3", got)
	}
	if got := metric(t, registry, "supercargo_store_series_refused_total"); got != 1 {
		t.Errorf("%v samples were counted as refused, want 1", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lowered := open(t, dir, noon, func(o *Options) { o.MaxSeries = 1 })
	if got := lowered.Series(); got != 3 {
		t.Errorf("with the limit lowered a restart has %d series, want the 3 there were", got)
	}
}

// metric returns the value of a counter or gauge without labels.
func metric(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestAQueryThatReadsTooMuchIsRefused(t *testing.T) {
	s := open(t, t.TempDir(), noon, func(o *Options) { o.MaxSamples = 5 })
	for i := range 10 {
		put(t, s, noon.Add(time.Duration(i)*time.Second), 1, "__name__", "up")
	}
	if _, err := s.Query(t.Context(), "sum_over_time(up[1m])", noon.Add(10*time.Second)); err == nil || !strings.Contains(err.Error(), "too many samples") {
		t.Errorf("error %v, want one about too many samples", err)
	}
}

func TestAQueryWaitsForItsTurnNoLongerThanItsCaller(t *testing.T) {
	s := open(t, t.TempDir(), noon, func(o *Options) { o.MaxQueries = 1 })
	s.turns <- struct{}{} // a query that does not end
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Query(ctx, "up", noon); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	<-s.turns
	ask(t, s, "up", noon)
}

func TestEveryFaultOfTheOptionsIsNamed(t *testing.T) {
	err := (&Options{MaxBytes: -1}).Validate()
	for _, word := range []string{"directory", "retention", "bytes", "series", "lookback", "timeout", "samples", "queries"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not mention %s", err, word)
		}
	}
	o := Defaults()
	o.Dir = "x"
	if err := o.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

// BenchmarkQuery measures the query of a policy each second, over 1,000 pods scraped each second.
func BenchmarkQuery(b *testing.B) {
	s := open(b, b.TempDir(), noon, nil)
	const pods, seconds = 1000, 60
	for i := range seconds {
		a := s.Appender(b.Context())
		for pod := range pods {
			series := labels.FromStrings("__name__", "requests_total", "namespace", "shop", "pod", fmt.Sprint("web-", pod))
			if _, err := a.Append(0, series, 0, noon.Add(time.Duration(i)*time.Second).UnixMilli(), float64(i*pod), nil, nil, storage.AOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		if err := a.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		found, err := s.Query(b.Context(), `sum(rate(requests_total{namespace="shop"}[30s]))`, noon.Add(seconds*time.Second))
		if err != nil || len(found) != 1 {
			b.Fatal(found, err)
		}
	}
}
