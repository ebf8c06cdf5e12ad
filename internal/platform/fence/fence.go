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
	"slices"
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
	resource, name := target(r.URL.Path)
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead || harmless[resource]:
		return t.next.RoundTrip(r)
	case resource == "leases":
		return t.renew(r, name)
	}
	if elapsed, led := t.fence.elapsed(); led && elapsed >= t.fence.lasts {
		if r.Body != nil {
			_ = r.Body.Close() // as RoundTrip promises
		}
		return nil, fmt.Errorf("refuse to write: this replica has not renewed its Lease %s for %v, so another replica may lead", t.fence.lease, elapsed.Truncate(time.Millisecond))
	}
	return t.next.RoundTrip(r)
}

// renew sends a write of the named Lease. It counts as a renewal if it is the Lease of the fence, or if a Lease is
// created, because the path of a create request has no name.
func (t transport) renew(r *http.Request, name string) (*http.Response, error) {
	asked := t.fence.clock.Now()
	response, err := t.next.RoundTrip(r)
	if err == nil && response.StatusCode/100 == 2 && (name == t.fence.lease || name == "") {
		t.fence.renewedAt(asked)
	}
	return response, err
}

// harmless are the resources whose writes cannot conflict with another replica: Events, and reviews of identity and
// access.
var harmless = map[string]bool{
	"events": true, "tokenreviews": true, "subjectaccessreviews": true, "localsubjectaccessreviews": true, "selfsubjectaccessreviews": true,
}

// target returns the resource in the path of a request to an API server, and the name of the object; "" if the path has
// none. What precedes /api or /apis, such as the path of a proxy, is ignored.
func target(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" })
	if at < 0 {
		return "", ""
	}
	skip := 2 // api, version
	if parts[at] == "apis" {
		skip = 3 // apis, group, version
	}
	parts = parts[min(at+skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	parts = append(parts, "", "")
	return parts[0], parts[1]
}
