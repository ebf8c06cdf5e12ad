// Package fence prevents a replica from writing after its Lease has expired, when another replica
// may lead.
//
// The leader election of client-go does not prevent this: a process that was stopped for longer
// than its Lease is valid, and continues, tries to renew the Lease for ten more seconds (the renew
// deadline) and acts beside the new leader meanwhile.
//
// All requests of a program pass through its fence. The fence observes renewals of the Lease, and
// refuses other writes if the last renewal is too old. It cannot stop a request that was sent
// before the Lease expired and arrives later.
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

// Fence is the fence of one process. Its methods may be called from any goroutine.
type Fence struct {
	lease string
	lasts time.Duration
	clock clock.PassiveClock

	mu      sync.Mutex
	renewed time.Time // when the last successful renewal was sent; zero if there is none
}

// New returns a fence for the holder of the named Lease, which is valid for the given duration.
func New(lease string, lasts time.Duration, clock clock.PassiveClock) *Fence {
	return &Fence{lease: lease, lasts: lasts, clock: clock}
}

// Wrap returns a copy of config whose clients are behind the fence.
func (f *Fence) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{f, next} })
	return config
}

// elapsed returns the time since the last renewal of the Lease, and whether there was one. It is
// the longer of the time by the monotonic clock, which stops while a virtual machine is suspended,
// and of the time by the wall clock, which may be set.
func (f *Fence) elapsed() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return 0, false
	}
	now := f.clock.Now()
	return max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0))), true
}

// renewedAt records that a renewal sent at the given time succeeded.
func (f *Fence) renewedAt(asked time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = asked
}

// transport applies the fence to one client.
type transport struct {
	fence *Fence
	next  http.RoundTripper
}

// WrappedRoundTripper lets client-go find the wrapped transport.
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
		return nil, fmt.Errorf("refuse to write: this replica has not renewed its Lease %s for %v, so another replica may lead", t.fence.lease, elapsed.Truncate(time.Millisecond))
	}
	return t.next.RoundTrip(r)
}

// renew sends a write of a Lease. It counts as a renewal if it is the Lease of the fence.
func (t transport) renew(r *http.Request) (*http.Response, error) {
	asked := t.fence.clock.Now()
	response, err := t.next.RoundTrip(r)
	ours := strings.HasSuffix(r.URL.Path, "/leases/"+t.fence.lease) || strings.HasSuffix(r.URL.Path, "/leases") // the path of a create request has no name
	if err == nil && response.StatusCode/100 == 2 && ours {
		t.fence.renewedAt(asked)
	}
	return response, err
}

// harmless reports whether writes to a path cannot conflict with another replica: Events, and
// reviews of identity and access.
func (transport) harmless(path string) bool {
	for _, part := range []string{"/events", "/tokenreviews", "/subjectaccessreviews"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}
