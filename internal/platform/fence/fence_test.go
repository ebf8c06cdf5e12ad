package fence

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

const (
	leases = "/apis/coordination.k8s.io/v1/namespaces/home/leases"
	scale  = "/apis/cluster.x-k8s.io/v1beta2/namespaces/capi/machinedeployments/m/scale"
)

// server answers every request with a status, and counts the writes.
type server struct {
	status int
	writes []string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		s.writes = append(s.writes, r.URL.Path)
	}
	return &http.Response{StatusCode: s.status, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// replica is a program behind a fence.
type replica struct {
	*testing.T
	clock  *testclock.FakeClock
	server *server
	client transport
}

func start(t *testing.T) *replica {
	c, s := testclock.NewFakeClock(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)), &server{status: http.StatusOK}
	return &replica{T: t, clock: c, server: s, client: transport{New("autoscaler", 15*time.Second, c), s}}
}

// sends sends a request, and reports whether it reached the server.
func (r *replica) sends(method, path string) bool {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), method, "https://server"+path, strings.NewReader("{}"))
	if err != nil {
		r.Fatal(err)
	}
	response, err := r.client.RoundTrip(request)
	if err != nil {
		if !strings.Contains(err.Error(), "another replica may lead") {
			r.Errorf("%s %s: %v", method, path, err)
		}
		return false
	}
	if err := response.Body.Close(); err != nil {
		r.Error(err)
	}
	return true
}

func TestALeaderWhoseLeaseHasExpiredWritesNoMore(t *testing.T) {
	r := start(t)
	r.sends(http.MethodPut, leases+"/autoscaler")
	if r.clock.Step(15*time.Second - 1); !r.sends(http.MethodPatch, scale) {
		t.Error("it does not write while it has the Lease")
	}
	if r.clock.Step(1); r.sends(http.MethodPatch, scale) {
		t.Error("it writes though its Lease has expired")
	}
	for what, path := range map[string]string{"an Event": "/apis/events.k8s.io/v1/namespaces/home/events", "a question": "/apis/authentication.k8s.io/v1/tokenreviews"} {
		if !r.sends(http.MethodPost, path) {
			t.Errorf("%s is held back", what)
		}
	}
	if !r.sends(http.MethodGet, scale) {
		t.Error("it does not read")
	}
	if r.sends(http.MethodPut, leases+"/autoscaler"); !r.sends(http.MethodPatch, scale) {
		t.Error("it has the Lease again and does not write")
	}
}

// TestNamesOfNamespacesAndObjectsOpenNoFence has names that are those of resources that pass a fence.
func TestNamesOfNamespacesAndObjectsOpenNoFence(t *testing.T) {
	r := start(t)
	r.sends(http.MethodPut, leases+"/autoscaler")
	r.clock.Step(time.Minute)
	for _, path := range []string{
		"/api/v1/namespaces/events/pods/a/eviction", "/api/v1/namespaces/events-prod/pods/a/eviction", "/api/v1/namespaces/leases/pods/a/eviction",
		"/apis/apps/v1/namespaces/shop/deployments/events/scale", "/apis/apps/v1/namespaces/shop/deployments/leases", "/api/v1/nodes/leases",
		"/proxy/events/api/v1/nodes/a", "/api/v1/namespaces/leases",
	} {
		if r.sends(http.MethodPatch, path) {
			t.Errorf("%s is written though the Lease has expired", path)
		}
	}
	if r.sends(http.MethodPut, "/proxy/leases"+leases+"/autoscaler"); !r.sends(http.MethodPatch, scale) {
		t.Error("a Lease that is renewed behind a path of a proxy does not count")
	}
}

func TestARenewalCountsFromWhenItWasAskedFor(t *testing.T) {
	r := start(t)
	slow := r.client
	slow.next = stepping{r.clock, 14 * time.Second, r.server}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://server"+leases+"/autoscaler", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := slow.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if r.clock.Step(time.Second); r.sends(http.MethodPatch, scale) {
		t.Error("it writes 15 s after it has asked for the Lease")
	}
}

// stepping is a server that takes its time.
type stepping struct {
	clock *testclock.FakeClock
	takes time.Duration
	next  http.RoundTripper
}

func (s stepping) RoundTrip(r *http.Request) (*http.Response, error) {
	s.clock.Step(s.takes)
	return s.next.RoundTrip(r)
}

func TestARenewalThatIsRefusedIsNone(t *testing.T) {
	r := start(t)
	r.sends(http.MethodPost, leases) // it makes the Lease
	r.clock.Step(14 * time.Second)
	r.server.status = http.StatusConflict
	r.sends(http.MethodPut, leases+"/autoscaler")
	r.server.status = http.StatusOK
	r.sends(http.MethodPut, leases+"/another")
	if r.clock.Step(time.Second); r.sends(http.MethodPatch, scale) {
		t.Error("it writes though it has renewed nothing")
	}
}

func TestWhoNeverLedIsNotHeldBack(t *testing.T) {
	r := start(t)
	if r.clock.Step(time.Hour); !r.sends(http.MethodPatch, scale) {
		t.Error("it may not write its certificate, for instance")
	}
}

// TestAClockThatIsSetOnlyHoldsBackUntilTheNextRenewal: forward, it looks as if the machine had
// been suspended; back, the time that the process ran counts, which a fake clock does not have.
func TestAClockThatIsSetOnlyHoldsBackUntilTheNextRenewal(t *testing.T) {
	r := start(t)
	r.sends(http.MethodPut, leases+"/autoscaler")
	if r.clock.Step(time.Hour); r.sends(http.MethodPatch, scale) {
		t.Error("it writes though it may have been suspended for an hour")
	}
	if r.sends(http.MethodPut, leases+"/autoscaler"); !r.sends(http.MethodPatch, scale) {
		t.Error("it does not write after it has renewed its Lease")
	}
	if r.clock.Step(-2 * time.Hour); !r.sends(http.MethodPatch, scale) {
		t.Error("it does not write after its clock was set back")
	}
}
