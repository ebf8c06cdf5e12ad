package adapter

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// web simulates the target that the adapter scrapes each second: series of a queue, by namespace, that tests
// set.
type web struct {
	mu     sync.Mutex
	lines  map[string]float64 // series in Prometheus' text form
	server *httptest.Server
	// other is a target that a test stops.
	other *httptest.Server
}

func newWeb() *web {
	w := &web{lines: map[string]float64{}}
	w.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, series := range slices.Sorted(maps.Keys(w.lines)) {
			fmt.Fprintf(out, "%s %v\n", series, w.lines[series])
		}
	}))
	w.other = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(out, `queue_length{namespace="doomed",queue="q"} 5`)
	}))
	return w
}

// set sets the value of a series.
func (w *web) set(value float64, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines[fmt.Sprintf(format, args...)] = value
}

func (w *web) stop() {
	w.server.Close()
	w.other.Close()
}

// configuration returns a configuration that scrapes both targets, queries the manager at an address, and
// serves the metrics.
func (w *web) configuration(manager string) string {
	return fmt.Sprintf(`apiVersion: adapter.supercargo.dev/v1alpha1
kind: MetricsAdapterConfiguration
targets:
- {job: web, addresses: [%q], interval: 1s, honorLabels: true}
- {job: doomed, addresses: [%q], interval: 1s, honorLabels: true}
workQueues:
- {manager: %s, namespace: %s, address: %q, interval: 1s}
external:
- name: queue_length
  query: sum by (queue) (queue_length)
- name: requests_per_second
  query: sum(rate(requests_total[5s]))
custom:
- name: load
  query: sum by (pod) (load)
  resource: pods
  objectLabel: pod
presets:
- {name: ingress-nginx, parameters: {honorLabels: "true", window: 5s}}
- {name: nginx, parameters: {queue: connections}}
- {name: work-queue}
`, strings.TrimPrefix(w.server.URL, "http://"), strings.TrimPrefix(w.other.URL, "http://"), blast, genomics, manager)
}
