package app

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"supercargo.dev/supercargo/autoscaler/adapter/serve"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
)

// TestTheSampleServesTasksByManager has a manager at the port of the sample and another that
// is down, and asks as a HorizontalPodAutoscaler does.
func TestTheSampleServesTasksByManager(t *testing.T) {
	c, err := load(sampleConfiguration(t, "metrics-workqueue.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.WorkQueues) != 1 {
		t.Fatalf("the sample has %d managers, want 1", len(c.WorkQueues))
	}
	m := workqueuetest.Start(t, nil, "", nil)
	c.WorkQueues[0].Address = m.Address
	down := c.WorkQueues[0]
	down.Manager, down.Address = "genome", closedAddress(t)
	c.WorkQueues = append(c.WorkQueues, down)
	s, now := openStore(t)
	clock := clocktesting.NewFakeClock(now.Now())
	registry := prometheus.NewRegistry()
	recorders, err := workQueues(c.WorkQueues, s, registry, clock, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // a minute
		m.Put(map[string]string{"queue_status": fmt.Sprintf(`[{"type":"wq_manager","tasks_waiting":%d,"tasks_on_workers":6,"tasks_submitted":%d}]`, 10+i, 30*i)})
		for j, r := range recorders {
			if err := r.Record(t.Context()); (err != nil) != (j == 1) {
				t.Errorf("manager %s: error %v", r.Manager, err)
			}
		}
		if i < 4 {
			clock.Step(15 * time.Second)
		}
	}
	now.SetTime(clock.Now())
	external, err := serve.NewExternal(c.External, s, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ namespace, selector, metric, want string }{
		{"genomics", "manager=blast", "work_queue_queue_length", "[20]"},
		{"genomics", "", "work_queue_queue_length", "[20]"},
		{"genomics", "manager=blast", "work_queue_requests_per_second", "[2]"},
		{"genomics", "manager=genome", "work_queue_queue_length", "[]"},
		{"shop", "manager=blast", "work_queue_queue_length", "[]"},
	} {
		chosen, err := kubelabels.Parse(tc.selector)
		if err != nil {
			t.Fatal(err)
		}
		list, err := external.GetExternalMetric(t.Context(), tc.namespace, chosen, provider.ExternalMetricInfo{Metric: tc.metric})
		if err != nil {
			t.Errorf("%s in %s: %v", tc.metric, tc.namespace, err)
			continue
		}
		values := []string{}
		for _, item := range list.Items {
			values = append(values, item.Value.String())
		}
		if got := fmt.Sprint(values); got != tc.want {
			t.Errorf("%s in %s by %q is %s, want %s", tc.metric, tc.namespace, tc.selector, got, tc.want)
		}
	}
	if n := testutil.CollectAndCount(recorders[0].Readings); n != 2 {
		t.Errorf("%d counters of readings, want one that answers and one that does not", n)
	}
}

// closedAddress is one at which nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
