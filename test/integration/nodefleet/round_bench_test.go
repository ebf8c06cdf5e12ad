package nodefleet

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
)

// requests counts the requests of a client except watches and leases, and how long it waits for the answers
// to begin.
type requests struct {
	mu   sync.Mutex
	sent map[string]asked // by method and kind
}

type asked struct {
	times  int
	waited time.Duration
}

// through wraps a round tripper for rest.Config.Wrap.
func (r *requests) through(next http.RoundTripper) http.RoundTripper {
	return kit.Transport(func(request *http.Request) (*http.Response, error) {
		path := strings.Split(request.URL.Path, "/")
		if request.URL.Query().Get("watch") != "" || slices.Contains(path, "leases") {
			return next.RoundTrip(request)
		}
		began, of := time.Now(), request.Method+" "+kindOf(path)
		response, err := next.RoundTrip(request)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sent[of] = asked{r.sent[of].times + 1, r.sent[of].waited + time.Since(began)}
		return response, err
	})
}

// kindOf returns the plural of the kind that a path is about.
func kindOf(path []string) string {
	for _, after := range []string{"namespaces", "v1", "v1alpha1", "v1beta1", "v1beta2"} {
		at := slices.Index(path, after)
		if after == "namespaces" {
			at++ // its name
		}
		if at > 0 && at+1 < len(path) {
			return path[at+1]
		}
	}
	return strings.Join(path, "/")
}

func (r *requests) sofar() map[string]asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.sent)
}

// rounds contains the rounds of a fleet so far: how many have made a decision, their deciding time, and the
// total time of all rounds, in seconds.
type rounds struct {
	n              uint64
	deciding, took float64
}

func (b *bench) rounds(fleet string) rounds {
	b.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	var found rounds
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				switch h := m.GetHistogram(); {
				case f.GetName() == "supercargo_nodefleet_planning_seconds" && l.GetValue() == b.Space+"-"+fleet:
					found.n, found.deciding = h.GetSampleCount(), h.GetSampleSum()
				case f.GetName() == "controller_runtime_reconcile_time_seconds" && l.GetValue() == "nodefleet":
					found.took = h.GetSampleSum()
				}
			}
		}
	}
	return found
}

// benches counts the benches of benchmarks, each of which runs several times.
var benches int

// BenchmarkARoundOverAWholeCatalogue runs the autoscaler on a real API server, with a fleet that may buy some
// 700 instance types. It reports the time of a round besides the decision, which is mostly planning, and the
// number of requests. The fleet is the only one, so that the time of the controller is that of its rounds.
func BenchmarkARoundOverAWholeCatalogue(b *testing.B) {
	const pods = 200
	// several runs as many rounds as the benchmark needs.
	several := func(s *bench, n int) { s.reach("all", s.rounds("all").n+uint64(n)) }
	tests := []struct {
		name    string
		mode    v1alpha1.FleetMode
		prepare func(s *bench)
		run     func(s *bench, n int)
	}{
		{"nothing to do", v1alpha1.FleetAct, func(*bench) {}, several},
		{"pods to buy for", v1alpha1.FleetObserve, func(s *bench) { // in mode Observe each round has them
			s.pods("p", pods, "1500m", "2500Mi")
			s.wait(pods)
		}, several},
		{"buying", v1alpha1.FleetAct, func(*bench) {}, func(s *bench, n int) {
			for i := range n {
				s.pods(fmt.Sprint("p", i), pods/10, "1500m", "2500Mi")
				s.Runs(pods / 10 * (i + 1))
			}
		}},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			benches++
			s := newBench(b, fmt.Sprint("round", benches))
			s.market()
			s.fleet("all", s.catalogue("c*", "m*", "r*"), func(spec *v1alpha1.NodeFleetSpec) {
				spec.Mode, spec.Scaling.Interval = tt.mode, seconds(1)
			})
			tt.prepare(s)
			log := &requests{sent: map[string]asked{}}
			s.autoscale(func(o *app.Options) { o.Config.Wrap(log.through) })
			const warm = 5
			s.reach("all", warm)

			before, sent := s.rounds("all"), log.sofar()
			b.ResetTimer()
			tt.run(s, b.N)
			b.StopTimer()
			s.report(b, before, sent, log)
		})
	}
}

// report reports the time and the requests of rounds.
func (b *bench) report(to *testing.B, before rounds, sent map[string]asked, log *requests) {
	after, now := b.rounds("all"), log.sofar()
	n := float64(after.n - before.n)
	deciding, took := after.deciding-before.deciding, after.took-before.took
	to.ReportMetric(n, "rounds")
	to.ReportMetric(1000*took/n, "ms/round")
	to.ReportMetric(1000*deciding/n, "ms-deciding/round")
	to.ReportMetric(1000*(took-deciding)/n, "ms-beside/round")
	times, waited := 0, time.Duration(0)
	for _, what := range slices.Sorted(maps.Keys(now)) {
		if is, was := now[what], sent[what]; is.times > was.times {
			times, waited = times+is.times-was.times, waited+is.waited-was.waited
			to.Logf("%.2f %s each round, answered after %v", float64(is.times-was.times)/n, what, (is.waited-was.waited)/time.Duration(is.times-was.times))
		}
	}
	to.ReportMetric(float64(times)/n, "requests/round")
	to.ReportMetric(1000*waited.Seconds()/n, "ms-waiting/round")
}

// reach waits until a fleet has completed n rounds.
func (b *bench) reach(fleet string, n uint64) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%d rounds", n), func() string {
		if done := b.rounds(fleet).n; done < n {
			return fmt.Sprint(done)
		}
		return ""
	})
}
