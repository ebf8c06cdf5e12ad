// Package fence keeps a replica from writing once its Lease has expired, when another one may
// lead.
//
// The leader election of client-go does not do so: a process that was stopped for longer than
// its Lease lasts, and continues, tries to renew it for ten more seconds (the renew deadline)
// before it gives up, and acts meanwhile beside the new leader.
//
// A fence is in the way of all requests of a program. It sees the Lease being renewed, and
// refuses other writes if that was too long ago. What was sent before, or is sent in the
// moment after it was looked at, it cannot hold back.
package fence

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Fence is for one process. Its methods may be called from any goroutine.
type Fence struct {
	lease string
	lasts time.Duration
	clock clock.PassiveClock

	mu      sync.Mutex
	renewed time.Time // when the last renewal that succeeded was asked for; zero if none did
}

// New returns a fence for the holder of a Lease of that name, which lasts for so long.
func New(lease string, lasts time.Duration, clock clock.PassiveClock) *Fence {
	return &Fence{lease: lease, lasts: lasts, clock: clock}
}

// Wrap returns a copy of config whose clients are behind the fence.
func (f *Fence) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{f, next} })
	return config
}

// elapsed returns for how long the Lease has not been renewed, and whether it ever was. It is
// the longer of the time that this machine ran, and of what its clock says: the first stops
// while a virtual machine is suspended, the second may be set.
func (f *Fence) elapsed() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return 0, false
	}
	now := f.clock.Now()
	return max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0))), true
}

// renewedAt notes that a renewal that was asked for at a time has succeeded.
func (f *Fence) renewedAt(asked time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = asked
}

// transport is the fence in the way of one client.
type transport struct {
	fence *Fence
	next  http.RoundTripper
}

// WrappedRoundTripper lets client-go find what is below.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead || t.harmless(r.URL.Path):
		return t.next.RoundTrip(r)
	case strings.Contains(r.URL.Path, "/leases"):
		return t.renew(r)
	}
	if elapsed, led := t.fence.elapsed(); led && elapsed >= t.fence.lasts {
		if r.Body != nil {
			_ = r.Body.Close() // as RoundTrip promises
		}
		return nil, fmt.Errorf("this replica has not renewed its Lease %s for %v, so another one may lead: it writes no more", t.fence.lease, elapsed.Truncate(time.Millisecond))
	}
	return t.next.RoundTrip(r)
}

// renew sends a write of a Lease: that of the holder, unless it is of another name.
func (t transport) renew(r *http.Request) (*http.Response, error) {
	asked := t.fence.clock.Now()
	response, err := t.next.RoundTrip(r)
	ours := strings.HasSuffix(r.URL.Path, "/leases/"+t.fence.lease) || strings.HasSuffix(r.URL.Path, "/leases") // whoever creates one has no name in the path
	if err == nil && response.StatusCode/100 == 2 && ours {
		t.fence.renewedAt(asked)
	}
	return response, err
}

// harmless reports whether a path is of what no other replica minds: Events, and questions about
// who a caller is and what it may do.
func (transport) harmless(path string) bool {
	for _, part := range []string{"/events", "/tokenreviews", "/subjectaccessreviews"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}
