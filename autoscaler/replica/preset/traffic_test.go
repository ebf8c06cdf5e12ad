package preset_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// scraped is an embedded store with two hours of samples since noon, one every 15 s.
type scraped struct {
	*testing.T
	store   *store.Store
	samples []sample
}

type sample struct {
	second int
	series labels.Labels
	value  float64
}

const seconds = 2 * 3600

func scrape(t *testing.T) *scraped {
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
	return &scraped{T: t, store: s}
}

// put adds a series with a value for each second since noon.
func (s *scraped) put(value func(second int) float64, series ...string) {
	for second := 0; second <= seconds; second += 15 {
		s.samples = append(s.samples, sample{second, labels.FromStrings(series...), value(second)})
	}
}

// flush stores all series.
func (s *scraped) flush() {
	s.Helper()
	slices.SortStableFunc(s.samples, func(a, b sample) int { return a.second - b.second })
	a := s.store.Appender(s.Context())
	for _, p := range s.samples {
		if _, err := a.Append(0, p.series, 0, noon.Add(time.Duration(p.second)*time.Second).UnixMilli(), p.value, nil, nil, storage.AOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	if err := a.Commit(); err != nil {
		s.Fatal(err)
	}
}

// value returns the one value of a query an hour after noon.
func (s *scraped) value(query string) float64 {
	s.Helper()
	found, err := s.store.Query(s.Context(), query, noon.Add(time.Hour))
	if err != nil || len(found) != 1 {
		s.Fatalf("%s: %d samples, %v, want one", query, len(found), err)
	}
	return found[0].Value
}

func total(perSecond func(second int) float64) func(int) float64 {
	sums := make([]float64, seconds+1)
	for i := range seconds {
		sums[i+1] = sums[i] + perSecond(i)
	}
	return func(second int) float64 { return sums[second] }
}

func always(v float64) func(int) float64 { return func(int) float64 { return v } }

// between is v from one second to another, and 0 otherwise.
func between(from, to int, v float64) func(int) float64 {
	return func(second int) float64 {
		if second >= from && second < to {
			return v
		}
		return 0
	}
}

// respond adds the responses of an ingress that took so many seconds each.
func (s *scraped) respond(perSecond func(int) float64, took float64, status string, more ...string) {
	count := total(perSecond)
	with := append([]string{"exported_namespace", "shop", "ingress", "web", "status", status}, more...)
	const duration = "nginx_ingress_controller_request_duration_seconds"
	s.put(count, append(with, "__name__", "nginx_ingress_controller_requests")...)
	s.put(count, append(with, "__name__", duration+"_count")...)
	s.put(func(second int) float64 { return took * count(second) }, append(with, "__name__", duration+"_sum")...)
}

// web is a policy of a service whose replicas serve 20 requests/s each, within 200 ms.
func web(t *testing.T, kind v1alpha1.ReplicaLaw) *replicadecide.Policy {
	t.Helper()
	p, err := replicadecide.New("shop", &v1alpha1.ReplicaPolicySpec{
		Target: v1alpha1.ReplicaTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Mode: v1alpha1.ReplicasAct, MinReplicas: 2, MaxReplicas: 40,
		SLO:     &v1alpha1.ServiceLevel{ResponseTime: metav1.Duration{Duration: 200 * time.Millisecond}},
		Service: &v1alpha1.ServiceModel{RatePerReplica: resource.MustParse("20")},
		Law:     v1alpha1.ReplicaLawSpec{Name: kind, Interval: metav1.Duration{Duration: 250 * time.Second}},
		Metrics: v1alpha1.ReplicaMetrics{Source: "default", MaxAge: metav1.Duration{Duration: time.Minute},
			Preset: &v1alpha1.MetricPreset{Name: preset.IngressNginx, Parameters: map[string]v1alpha1.PresetParameter{"ingress": "web"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// follow evaluates a policy from one second to another. All replicas are Ready at once. It returns the replicas of each
// evaluation, and the reason of the last.
func (s *scraped) follow(p *replicadecide.Policy, from, to, replicas int) (course []int, last []string) {
	s.Helper()
	var m law.Memory
	for at := time.Duration(from) * time.Second; at <= time.Duration(to)*time.Second; {
		seen := replicadecide.Seen{Now: noon.Add(at), Spec: replicas, Ready: replicas}
		for _, q := range p.Questions {
			found, err := s.store.Query(s.Context(), q.PromQL, seen.Now)
			samples := make([]replicadecide.Sample, len(found))
			for i := range found {
				samples[i] = replicadecide.Sample{Value: found[i].Value, At: found[i].At}
			}
			seen.Answers = append(seen.Answers, replicadecide.Read(q.Measurement, seen.Now, samples, nil, err))
		}
		var out replicadecide.Outcome
		m, out = p.Evaluate(m, seen)
		replicas, last, at = out.Replicas, out.Reasons, at+out.Next
		course = append(course, replicas)
	}
	return course, last
}

func TestAnOpenWebSocketIsNoRequest(t *testing.T) {
	for name, closed := range map[string]func(int) float64{
		"one closes every three minutes": always(1.0 / 180),
		"200 close at once":              between(3600, 3610, 20),
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []v1alpha1.ReplicaLaw{v1alpha1.LawPredictive, v1alpha1.LawInverseQueue} {
				var courses [2][]int
				for i := range courses {
					s := scrape(t)
					s.respond(always(30), 0.05, "200")
					if i == 1 {
						s.respond(closed, 3600, "101")
					}
					s.flush()
					courses[i], _ = s.follow(web(t, kind), 300, seconds, 3)
				}
				if !slices.Equal(courses[0], courses[1]) {
					t.Errorf("%s: %d with web sockets, want the replicas without them: %d", kind, courses[1], courses[0])
				}
			}
		})
	}
}

// TestAServiceThatOnlyFailsIsNotHeld: the responses of a service that does not keep up are all 504, and have no response
// time. The arrival rate and the queue show how many replicas it needs.
func TestAServiceThatOnlyFailsIsNotHeld(t *testing.T) {
	for _, kind := range []v1alpha1.ReplicaLaw{v1alpha1.LawPredictive, v1alpha1.LawInverseQueue} {
		s := scrape(t)
		s.respond(between(0, 1800, 30), 0.05, "200")
		s.respond(between(1800, seconds, 300), 5, "504")
		s.flush()
		course, last := s.follow(web(t, kind), 1500, 3600, 3)
		if end := course[len(course)-1]; end < 16 {
			t.Errorf("%s: %d, at last because %q, want 16 replicas or more for 300 requests/s of 20 for each", kind, course, last)
		}
	}
}

// TestOpenWebSocketsOfAnNginxAreNoQueue: connections do not show which of them were upgraded.
func TestOpenWebSocketsOfAnNginxAreNoQueue(t *testing.T) {
	for name, upgrades := range map[string]float64{"no upgrade was logged": 0, "one was": 1} {
		t.Run(name, func(t *testing.T) {
			s := scrape(t)
			s.put(always(0), "__name__", "nginx_connections_reading", "namespace", "shop")
			s.put(always(101), "__name__", "nginx_connections_writing", "namespace", "shop")
			s.put(always(upgrades), "__name__", "nginx_log_requests_total", "namespace", "shop", "status", "1xx")
			s.put(total(always(3)), "__name__", "nginx_log_request_duration_seconds_sum", "namespace", "shop", "status", "2xx")
			s.flush()
			q, err := preset.New(preset.Nginx, "shop", nil)
			if err != nil {
				t.Fatal(err)
			}
			want := 100.0
			if upgrades > 0 {
				want = 3
			}
			if got := s.value(q.QueueLength); !near(got, want) {
				t.Errorf("%v requests in the system, want %v", got, want)
			}
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

// TestCopiesOfASeriesCountOnce: two jobs scrape the ingress controllers, two replicas of kube-state-metrics export the
// requests of the same pods, and two jobs scrape the kubelet.
func TestCopiesOfASeriesCountOnce(t *testing.T) {
	s := scrape(t)
	for _, job := range []string{"pods", "ingress-nginx"} {
		for _, instance := range []string{"10.0.0.1:10254", "10.0.0.2:10254"} {
			s.respond(always(30), 0.05, "200", "instance", instance, "job", job, "endpoint", job)
		}
	}
	for _, copied := range []string{"a", "b"} {
		s.put(total(always(0.4)), "__name__", "container_cpu_usage_seconds_total", "namespace", "shop", "pod", "web-0", "container", "app", "cpu", "total", "job", copied)
		if copied == "b" { // only this kubelet was scraped twice
			s.put(total(always(0.8)), "__name__", "container_cpu_usage_seconds_total", "namespace", "shop", "pod", "web-1", "container", "app", "cpu", "total", "job", copied)
		}
		for _, pod := range []string{"web-0", "web-1"} {
			s.put(always(1), "__name__", "kube_pod_container_resource_requests", "namespace", "shop", "pod", pod, "container", "app", "resource", "cpu", "instance", copied)
			s.put(always(1), "__name__", "kube_pod_status_ready", "namespace", "shop", "pod", pod, "condition", "true", "instance", copied)
		}
	}
	s.flush()
	ingress, err := preset.New(preset.IngressNginx, "shop", map[string]string{"ingress": "web"})
	if err != nil {
		t.Fatal(err)
	}
	cpu, err := preset.New(preset.ContainerCPU, "shop", map[string]string{"pods": "web-.*"})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]float64{ingress.ArrivalRate: 60, ingress.QueueLength: 3, ingress.ResponseTime: 0.05, cpu.Utilization: 60} {
		if got := s.value(query); !near(got, want) {
			t.Errorf("%s is %v, want %v", query, got, want)
		}
	}
}
