package app

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
)

// TestTheSampleServesTasksByManager runs one manager at the sample's port and none at
// another, and queries as a HorizontalPodAutoscaler does.
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
	answers(t, c, s, now, []answer{
		{"genomics", "manager=blast", "work_queue_queue_length", "[20]"},
		{"genomics", "", "work_queue_queue_length", "[20]"},
		{"genomics", "manager=blast", "work_queue_requests_per_second", "[2]"},
		{"genomics", "manager=genome", "work_queue_queue_length", "[]"},
		{"shop", "manager=blast", "work_queue_queue_length", "[]"},
	})
	if n := testutil.CollectAndCount(recorders[0].Readings); n != 2 {
		t.Errorf("%d counters of readings, want one that answers and one that does not", n)
	}
}

// closedAddress returns an address without a listener.
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
