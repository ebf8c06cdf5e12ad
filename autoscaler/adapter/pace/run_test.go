package pace

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testwait"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// policy returns a policy that observes every d with the preset nginx.
func policy(name string, d time.Duration) *v1alpha1.ReplicaPolicy {
	p := &v1alpha1.ReplicaPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1}}
	p.Spec = v1alpha1.ReplicaPolicySpec{
		Target: v1alpha1.ReplicaTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: name}, Mode: v1alpha1.ReplicasAct, MinReplicas: 1, MaxReplicas: 9,
		SLO:     &v1alpha1.ServiceLevel{ResponseTime: metav1.Duration{Duration: time.Second}},
		Service: &v1alpha1.ServiceModel{RatePerReplica: resource.MustParse("10")},
		Law:     v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawInverseQueue, Interval: metav1.Duration{Duration: d}},
		Metrics: v1alpha1.ReplicaMetrics{Source: "default", MaxAge: metav1.Duration{Duration: time.Minute},
			Preset: &v1alpha1.MetricPreset{Name: preset.Nginx}},
	}
	return p
}

// filled returns a store with series, each given as name, namespace, and instance, which may
// be empty.
func filled(t *testing.T, series ...[3]string) *store.Store {
	t.Helper()
	o := store.Defaults()
	o.Dir, o.Clock = t.TempDir(), clocktesting.NewFakePassiveClock(noon)
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	a := s.Appender(t.Context())
	for _, n := range series {
		l := labels.FromStrings("__name__", n[0], "namespace", n[1], "job", target.PodsJob, "instance", n[2])
		if n[2] == "" {
			l = labels.FromStrings("__name__", n[0], "namespace", n[1])
		}
		if _, err := a.Append(0, l, 0, noon.UnixMilli(), 1, nil, nil, storage.AOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Commit(); err != nil {
		t.Fatal(err)
	}
	return s
}

// pacer returns a Pacer with policies; the client can create more.
func pacer(t *testing.T, s Series, policies ...client.Object) (*Pacer, client.Client, *clocktesting.FakeClock) {
	t.Helper()
	c := fixtures.Client(policies...).Build()
	clock := clocktesting.NewFakeClock(noon)
	took := func() map[store.Origin]time.Duration { return nil }
	return &Pacer{Policies: c, Series: s, Took: took, Sources: []string{"default"}, Bounds: bounds, Clock: clock}, c, clock
}

// read returns the current demand.
func read(t *testing.T, p *Pacer) map[store.Origin]time.Duration {
	t.Helper()
	asked, err := p.Read(t.Context(), 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return asked.Every
}

func TestAPolicyAsksForThePlacesThatWhatItReadsWasScrapedFrom(t *testing.T) {
	s := filled(t,
		[3]string{"nginx_log_requests_total", "shop", "shop-nginx:9113"}, [3]string{"nginx_log_requests_total", "edge", "edge-nginx:9113"},
		[3]string{"nginx_connections_writing", "shop", "shop-status:9113"}, [3]string{"http_requests_total", "shop", "shop-web:80"},
		[3]string{"supercargo_pod_used", "shop", ""})
	second := func(addresses ...string) map[store.Origin]time.Duration {
		asked := map[store.Origin]time.Duration{}
		for _, a := range addresses {
			asked[from(a)] = time.Second
		}
		return asked
	}
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.ReplicaPolicy)
		want   map[store.Origin]time.Duration
	}{
		{"by a preset, in its namespace", func(*v1alpha1.ReplicaPolicy) {}, second("shop-nginx:9113", "shop-status:9113")},
		{"by a preset, in another", func(p *v1alpha1.ReplicaPolicy) {
			p.Spec.Metrics.Preset.Parameters = map[string]v1alpha1.PresetParameter{"namespace": "edge"}
		}, second("edge-nginx:9113")},
		{"by queries of its own", func(p *v1alpha1.ReplicaPolicy) {
			p.Spec.Metrics.Preset = nil
			p.Spec.Metrics.Queries = &v1alpha1.MetricQueries{ArrivalRate: `sum(rate(http_requests_total[5s]))`, ResponseTime: "1"}
		}, second("shop-web:80")},
		{"by what was not scraped", func(p *v1alpha1.ReplicaPolicy) {
			p.Spec.Metrics.Preset = nil
			p.Spec.Metrics.Queries = &v1alpha1.MetricQueries{ArrivalRate: `sum(supercargo_pod_used)`, ResponseTime: "1"}
		}, second()},
		{"of another source", func(p *v1alpha1.ReplicaPolicy) { p.Spec.Metrics.Source = "team-a" }, second()},
		{"looking more rarely than anything is scraped", func(p *v1alpha1.ReplicaPolicy) { p.Spec.Law.Interval.Duration = 15 * time.Second }, second()},
		{"with a spec that is no good", func(p *v1alpha1.ReplicaPolicy) { p.Spec.SLO = nil }, second()},
		{"with a query that is none among others", func(p *v1alpha1.ReplicaPolicy) {
			p.Spec.Metrics.Queries = &v1alpha1.MetricQueries{ArrivalRate: "sum("}
		}, second("shop-status:9113")},
		{"on its way out", func(p *v1alpha1.ReplicaPolicy) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/wait"}
		}, second()},
	} {
		t.Run(c.name, func(t *testing.T) {
			asks := policy("web", time.Second)
			c.change(asks)
			p, _, _ := pacer(t, s, asks)
			if diff := cmp.Diff(c.want, read(t, p), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestThePolicyThatLooksMostOftenDecides(t *testing.T) {
	s := filled(t, [3]string{"nginx_log_requests_total", "shop", "nginx:9113"})
	p, c, _ := pacer(t, s, policy("a", 5*time.Second), policy("b", 2*time.Second), policy("c", 9*time.Second))
	if got := read(t, p)[from("nginx:9113")]; got != 2*time.Second {
		t.Errorf("it is checked every %v, want 2s", got)
	}
	changed := policy("b", time.Second)
	changed.Generation = 2
	var there v1alpha1.ReplicaPolicy
	testapi.Get(t, c, client.ObjectKeyFromObject(changed), &there)
	changed.ResourceVersion = there.ResourceVersion
	testapi.Update(t, c, changed)
	if got := read(t, p)[from("nginx:9113")]; got != time.Second {
		t.Errorf("after a policy has changed it is checked every %v, want 1s", got)
	}
	testapi.Delete(t, c, changed)
	if got := read(t, p)[from("nginx:9113")]; got != 5*time.Second || len(p.known) != 2 {
		t.Errorf("after that policy has gone it is checked every %v for %d policies, want 5s for 2", got, len(p.known))
	}
}

func TestAPolicyOfDoubleThresholdAsksForTheTimeInWhichItLooksWhenItIsUrgent(t *testing.T) {
	urgent := policy("web", 0)
	urgent.Spec.Law = v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawDoubleThreshold}
	predicts := policy("other", 20*time.Second)
	predicts.Spec.Law.Name = v1alpha1.LawPredictive
	for _, c := range []struct {
		policy *v1alpha1.ReplicaPolicy
		want   time.Duration
	}{{urgent, time.Second}, {predicts, 2 * time.Second}} {
		if d := demandOf(c.policy); d.every != c.want {
			t.Errorf("%s asks for %v, want %v", c.policy.Spec.Law.Name, d.every, c.want)
		}
	}
}

func TestATargetThatWasSlowIsGivenTimeForFiveMinutes(t *testing.T) {
	p, _, clock := pacer(t, filled(t, [3]string{"nginx_log_requests_total", "shop", "nginx:9113"}), policy("web", time.Second))
	took := 1500 * time.Millisecond
	p.Took = func() map[store.Origin]time.Duration { return map[store.Origin]time.Duration{from("nginx:9113"): took} }
	for _, c := range []struct {
		after, took, want time.Duration
	}{
		{0, 1500 * time.Millisecond, 4 * time.Second},
		{time.Minute, 600 * time.Millisecond, 4 * time.Second},
		{4 * time.Minute, 100 * time.Millisecond, 4 * time.Second},
		{time.Second, 100 * time.Millisecond, 0},
	} {
		took = c.took
		clock.Step(c.after)
		asked, err := p.Read(t.Context(), time.Minute)
		if got := asked.Floor[from("nginx:9113")]; err != nil || got != c.want {
			t.Errorf("%v later, taking %v: every %v at most, want %v (%v)", c.after, c.took, got, c.want, err)
		}
	}
}

// runs runs a pacer until the test ends. It returns a channel for targets and a function that
// returns the resulting intervals.
func runs(t *testing.T, p *Pacer) (chan<- []target.Target, func() []time.Duration) {
	t.Helper()
	if err := p.Register(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	in, out, done := make(chan []target.Target), make(chan []target.Target), make(chan error, 1)
	go func() { done <- p.Run(ctx, in, out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return in, func() []time.Duration {
		t.Helper()
		select {
		case targets := <-out:
			var intervals []time.Duration
			for _, one := range targets {
				intervals = append(intervals, one.Interval)
			}
			return intervals
		case <-time.After(30 * time.Second):
			t.Fatal("no targets come")
			return nil
		}
	}
}

// rests waits until the pacer pauses.
func rests(t *testing.T, clock *clocktesting.FakeClock) {
	t.Helper()
	testwait.For(t, 30*time.Second, "it rests", clock.HasWaiters)
}

// step ends the pause of the pacer.
func step(t *testing.T, clock *clocktesting.FakeClock) {
	t.Helper()
	rests(t, clock)
	clock.Step(every)
}

func TestIntervalsFollowPoliciesThatComeAndGo(t *testing.T) {
	p, c, clock := pacer(t, filled(t, [3]string{"nginx_log_requests_total", "shop", "nginx:9113"}))
	in, next := runs(t, p)
	in <- []target.Target{{Job: target.PodsJob, Address: "nginx:9113"}}
	if diff := cmp.Diff([]time.Duration{0}, next()); diff != "" {
		t.Errorf("without policies (-want +got):\n%s", diff)
	}
	asks := policy("web", time.Second)
	testapi.Create(t, c, asks)
	step(t, clock)
	if diff := cmp.Diff([]time.Duration{time.Second}, next()); diff != "" {
		t.Errorf("with one (-want +got):\n%s", diff)
	}
	in <- []target.Target{{Job: target.PodsJob, Address: "nginx:9113"}, {Job: target.PodsJob, Address: "other:80"}}
	if diff := cmp.Diff([]time.Duration{time.Second, 0}, next()); diff != "" {
		t.Errorf("with one more target (-want +got):\n%s", diff)
	}
	testapi.Delete(t, c, asks)
	step(t, clock)
	if diff := cmp.Diff([]time.Duration{0, 0}, next()); diff != "" {
		t.Errorf("when it has gone (-want +got):\n%s", diff)
	}
}

// hangs does not answer until its caller gives up.
type hangs struct{ client.Reader }

func (hangs) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTargetsDoNotWaitForPolicies(t *testing.T) {
	p, _, _ := pacer(t, nil)
	p.Policies = hangs{}
	in, next := runs(t, p)
	in <- []target.Target{{Job: target.PodsJob, Address: "nginx:9113", Interval: time.Minute}}
	if diff := cmp.Diff([]time.Duration{time.Minute}, next()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// missing returns that ReplicaPolicies are not installed, and counts the calls.
type missing struct {
	client.Reader
	asked chan struct{}
}

func (m missing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	m.asked <- struct{}{}
	return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1alpha1.GroupName, Kind: "ReplicaPolicy"}}
}

func TestWherePoliciesAreNotInstalledItIsAskedOnceAMinute(t *testing.T) {
	p, _, clock := pacer(t, nil)
	m := missing{asked: make(chan struct{}, 10)}
	p.Policies = m
	runs(t, p)
	rests(t, clock)
	clock.Step(retry - time.Second)
	rests(t, clock)
	if len(m.asked) != 1 {
		t.Errorf("within a minute it was asked %d times, want once", len(m.asked))
	}
	clock.Step(time.Second)
	<-m.asked
	<-m.asked
}

// TestAPageIsReadAsOftenAsAPolicyLooks is end to end: the pacer finds a target by the labels
// that the scraper gives its series.
func TestAPageIsReadAsOftenAsAPolicyLooks(t *testing.T) {
	t.Parallel()
	patience := make(chan string, 1000) // how long the scraper waits for a response: as long as its interval
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "nginx_connections_writing 1")
		patience <- r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds")
	}))
	t.Cleanup(page.Close)
	o := store.Defaults()
	o.Dir = t.TempDir()
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	scraper, err := s.NewScraper(store.ScrapeDefaults(), []target.Job{{Name: target.PodsJob}})
	if err != nil {
		t.Fatal(err)
	}
	asks := policy("web", time.Second)
	p, c, _ := pacer(t, s, asks)
	p.Clock, p.Took = clock.RealClock{}, scraper.Took
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	in, changes := make(chan []target.Target), make(chan []target.Target)
	group.Go(func() error { return p.Run(ctx, in, changes) })
	group.Go(func() error { return scraper.Run(ctx, changes) })
	in <- []target.Target{{Job: target.PodsJob, Address: strings.TrimPrefix(page.URL, "http://"), Interval: 3 * time.Second, Labels: map[string]string{"namespace": "shop"}}}
	next := func(want string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case got := <-patience:
				if got == want {
					return
				}
			case <-deadline:
				t.Fatalf("no scrape waits %s s", want)
			}
		}
	}
	next("3")
	next("1")
	testapi.Delete(t, c, asks)
	next("3")
}
