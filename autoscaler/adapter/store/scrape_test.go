package store

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/internal/platform/promql"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// page is a target whose response can be changed.
type page struct {
	*httptest.Server
	text atomic.Pointer[string]
}

func newPage(t *testing.T, text string) *page {
	p := &page{}
	p.text.Store(&text)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if text := *p.text.Load(); text != "" {
			fmt.Fprint(w, text)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *page) target() target.Target {
	return target.Target{Job: "test", Address: strings.TrimPrefix(p.URL, "http://"), Interval: time.Second, Labels: map[string]string{"namespace": "shop"}}
}

// scraped runs a scraper until the test ends; the channel takes new lists of targets.
func scraped(t *testing.T, change func(*ScrapeOptions), targets ...target.Target) (*Store, chan<- []target.Target, prometheus.Gatherer) {
	t.Helper()
	s := open(t, t.TempDir(), time.Now(), nil)
	o, registry := ScrapeDefaults(), prometheus.NewRegistry()
	o.Registerer = registry
	if change != nil {
		change(&o)
	}
	scraper, err := s.NewScraper(o, []target.Job{{Name: "test"}, {Name: "some", HonorLabels: true, Only: []string{"wanted", "other"}}})
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan []target.Target, 1)
	changes <- targets
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- scraper.Run(ctx, changes) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, changes, registry
}

// becomes waits until a query returns a good result.
func becomes(t *testing.T, s *Store, expression, what string, good func([]promql.Sample) bool) {
	t.Helper()
	testwait.Until(t, 30*time.Second, expression+" is "+what, func() string {
		if found := ask(t, s, expression, time.Now()); !good(found) {
			return fmt.Sprint(found)
		}
		return ""
	})
}

func is(value float64) func([]promql.Sample) bool {
	return func(found []promql.Sample) bool { return len(found) == 1 && found[0].Value == value }
}

func none(found []promql.Sample) bool { return len(found) == 0 }

func TestATargetIsScrapedAndWhenItFailsHasNoValue(t *testing.T) {
	p := newPage(t, "queue_length 7\n")
	s, _, _ := scraped(t, nil, p.target())
	becomes(t, s, `queue_length{job="test",namespace="shop"}`, "7", is(7))
	changed := "queue_length 8\n"
	p.text.Store(&changed)
	becomes(t, s, "queue_length", "8, a second later", is(8))
	down := ""
	p.text.Store(&down)
	becomes(t, s, "queue_length", "nothing", none) // within half the lookback, when the last sample would still be current
	becomes(t, s, "up", "0", is(0))
	p.text.Store(&changed)
	becomes(t, s, "queue_length", "8 again", is(8))
}

// The target sets timestamps and labels of its samples, as kubelets do.
func TestOnlyWhatIsWantedIsKeptAndItEndsWithItsTarget(t *testing.T) {
	p := newPage(t, "")
	says := func(v float64) {
		at := time.Now().UnixMilli()
		text := fmt.Sprintf("wanted{pod=\"p\",node=\"its own\"} %[1]v %[2]d\nunwanted{pod=\"p\"} %[1]v %[2]d\nwanted_too{pod=\"p\"} %[1]v %[2]d\n", v, at)
		p.text.Store(&text)
	}
	says(7)
	some := p.target()
	some.Job = "some"
	s, changes, _ := scraped(t, nil, some)
	becomes(t, s, `wanted{job="some",pod="p",node="its own",namespace="shop"}`, "7", is(7))
	for _, name := range []string{"unwanted", "wanted_too"} {
		if found := ask(t, s, name, time.Now()); len(found) > 0 {
			t.Errorf("%s is kept: %v", name, found)
		}
	}
	changes <- nil
	becomes(t, s, "wanted", "nothing", none)
}

func TestATargetThatIsNoLongerThereHasNoValue(t *testing.T) {
	p := newPage(t, "queue_length 7\n")
	s, changes, _ := scraped(t, nil, p.target())
	becomes(t, s, "queue_length", "7", is(7))
	changes <- nil
	becomes(t, s, "queue_length", "nothing", none)
	becomes(t, s, "up", "nothing", none)
}

func TestAScrapeThatExceedsALimitFailsAndIsCounted(t *testing.T) {
	for _, c := range []struct {
		name, text, counter string
		change              func(*ScrapeOptions)
	}{
		{"samples", "a 1\nb 2\n", "prometheus_target_scrapes_exceeded_sample_limit_total", func(o *ScrapeOptions) { o.SampleLimit = 1 }},
		{"bytes", "a 1\n# " + strings.Repeat("x", 200) + "\n", "prometheus_target_scrapes_exceeded_body_size_limit_total", func(o *ScrapeOptions) { o.BodyLimit = 100 }},
		{"labels", `a{k="v",l="w"} 1` + "\n", "prometheus_target_scrape_pool_exceeded_label_limits_total", func(o *ScrapeOptions) { o.LabelLimit = 4 }},
		{"length of a value", `a{k="` + strings.Repeat("v", 300) + `"} 1` + "\n", "prometheus_target_scrape_pool_exceeded_label_limits_total", func(o *ScrapeOptions) { o.LabelValueLimit = 200 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, _, registry := scraped(t, c.change, newPage(t, c.text).target())
			becomes(t, s, "up", "0", is(0))
			if found := ask(t, s, "a", time.Now()); len(found) != 0 {
				t.Errorf("it was kept: %v", found)
			}
			if c.name != "labels" && c.name != "length of a value" && metric(t, registry, c.counter) < 1 {
				t.Errorf("%s is 0", c.counter)
			}
		})
	}
}

func TestIntervalsLongerThanHalfTheLookbackAndShorterThanASecondAreRefused(t *testing.T) {
	s := open(t, t.TempDir(), noon, nil)
	for _, interval := range []time.Duration{0, time.Second - 1, 30*time.Second + 1} {
		o := ScrapeDefaults()
		o.Interval = interval
		if _, err := s.NewScraper(o, nil); err == nil || !strings.Contains(err.Error(), "interval") {
			t.Errorf("an interval of %v: error %v", interval, err)
		}
	}
	o := ScrapeDefaults()
	o.BodyLimit = 0
	if _, err := s.NewScraper(o, nil); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("no limit to the size: error %v", err)
	}
	if _, err := s.NewScraper(ScrapeDefaults(), []target.Job{{Name: "a"}, {Name: "a"}}); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("two jobs of one name: error %v", err)
	}
}

// TestATargetWhoseIntervalGrowsHasValuesAllTheTime: its series do not end before the first scrape
// at the new interval. There are several targets, because that scrape may come at once.
func TestATargetWhoseIntervalGrowsHasValuesAllTheTime(t *testing.T) {
	t.Parallel()
	const pages, longer = 8, 8 * time.Second
	scrapes := make(chan string, 1000) // how long the scraper waits for a response: as long as its interval
	var targets, changed []target.Target
	for range pages {
		seen := map[string]bool{}
		var mu sync.Mutex
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "queue_length 7\n")
			mu.Lock()
			defer mu.Unlock()
			if patience := r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"); !seen[patience] {
				seen[patience] = true
				scrapes <- patience
			}
		}))
		t.Cleanup(page.Close)
		one := target.Target{Job: "test", Address: strings.TrimPrefix(page.URL, "http://"), Interval: time.Second}
		targets = append(targets, one)
		one.Interval = longer
		changed = append(changed, one)
	}
	s, changes, _ := scraped(t, nil, targets...)
	wait := func(patience string) {
		t.Helper()
		for range pages {
			select {
			case got := <-scrapes:
				if got != patience {
					t.Fatalf("a scrape waits %s s for its answer, want %s", got, patience)
				}
			case <-time.After(time.Minute):
				t.Fatal("no scrape comes")
			}
		}
	}
	wait("1")
	becomes(t, s, "count(queue_length)", "of all", is(pages))
	changes <- changed
	wait("8")
	becomes(t, s, "count(count_over_time(queue_length[1m]) > 1)", "more than one of all", is(pages))
	if ends := marks(t, s, "queue_length"); ends != 0 {
		t.Errorf("series ended %d times while their targets answered", ends)
	}
}

// marks counts the staleness markers among the samples of a metric.
func marks(t *testing.T, s *Store, name string) int {
	t.Helper()
	q, err := s.db.Querier(0, farOff)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	found, n := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", name)), 0
	for found.Next() {
		it := found.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			if _, v := it.At(); value.IsStaleNaN(v) {
				n++
			}
		}
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestATargetWhoseIntervalShrinksIsScrapedSo(t *testing.T) {
	t.Parallel()
	p := newPage(t, "queue_length 7\n")
	slow, fast := p.target(), p.target()
	slow.Interval = 5 * time.Second
	s, changes, _ := scraped(t, nil, slow)
	becomes(t, s, "queue_length", "7", is(7))
	changes <- []target.Target{fast}
	changed := "queue_length 8\n"
	p.text.Store(&changed)
	becomes(t, s, "queue_length", "8", is(8))
	becomes(t, s, "count_over_time(queue_length[5s]) > bool 3", "more than three in five seconds", is(1))
}
