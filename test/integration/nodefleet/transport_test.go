package nodefleet

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// transport is a function that sends requests.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// benchLabel is on the nodes, fleets and MachineDeployments of a bench and has its
// name.
const benchLabel = "bench"

// view shows a client no more of the cluster than one bench: the fleets, nodes, pods
// and DaemonSets of others are left out of lists and watches.
func view(bench string) func(http.RoundTripper) http.RoundTripper {
	type filter struct{ parameter, selector string }
	filters := map[string]filter{
		"/apis/supercargo.dev/v1alpha1/nodefleets": {"labelSelector", benchLabel + "=" + bench},
		"/api/v1/nodes":            {"labelSelector", benchLabel + "=" + bench},
		"/api/v1/pods":             {"fieldSelector", "metadata.namespace=" + bench},
		"/apis/apps/v1/daemonsets": {"fieldSelector", "metadata.namespace=" + bench},
	}
	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			f, ok := filters[r.URL.Path]
			if !ok || r.Method != http.MethodGet {
				return next.RoundTrip(r)
			}
			r = r.Clone(r.Context())
			query := r.URL.Query()
			if given := query.Get(f.parameter); given != "" {
				f.selector = given + "," + f.selector
			}
			query.Set(f.parameter, f.selector)
			r.URL.RawQuery = query.Encode()
			return next.RoundTrip(r)
		})
	}
}

// writes reports whether a request changes what counts: not an Event, not a lease.
func writes(r *http.Request) bool {
	path := strings.Split(r.URL.Path, "/")
	return r.Method != http.MethodGet && r.Method != http.MethodHead && !slices.Contains(path, "events") && !slices.Contains(path, "leases")
}

// ledger notes the writes of a client and the requests that it was forbidden.
type ledger struct {
	mu               sync.Mutex
	written, forbade []string
}

func (l *ledger) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.Method != http.MethodGet {
			l.written = append(l.written, r.Method+" "+r.URL.Path)
		}
		if err == nil && response.StatusCode == http.StatusForbidden {
			l.forbade = append(l.forbade, r.Method+" "+r.URL.Path)
		}
		return response, err
	})
}

// read returns what was written and what was forbidden so far.
func (l *ledger) read() (written, forbade []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.written), slices.Clone(l.forbade)
}

var errCut = errors.New("the connection was cut")

// cut is a connection that breaks for good at one write.
type cut struct {
	// at which write, counted from 1, of those that match; match may be nil.
	at    int64
	match func(*http.Request) bool
	// sent says that this write reaches the API server, and only its answer is lost.
	sent bool

	seen  atomic.Int64
	what  string        // the write at which it broke; to be read when broken is closed
	broke chan struct{} // closed when it broke
}

func newCut(at int64, sent bool) *cut { return &cut{at: at, sent: sent, broke: make(chan struct{})} }

// broken reports whether it has broken.
func (c *cut) broken() bool {
	select {
	case <-c.broke:
		return true
	default:
		return false
	}
}

func (c *cut) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		if c.broken() {
			return nil, errCut
		}
		if !writes(r) || c.match != nil && !c.match(r) || c.seen.Add(1) != c.at {
			return next.RoundTrip(r)
		}
		c.what = r.Method + " " + r.URL.Path
		defer close(c.broke)
		if !c.sent {
			return nil, errCut
		}
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body) // so that it has been carried out
		_ = response.Body.Close()
		return nil, errCut
	})
}

// gate holds a client back after its first write that matches, until it is opened.
type gate struct {
	match         func(*http.Request) bool
	once          sync.Once
	reached, open chan struct{}
}

func newGate(match func(*http.Request) bool) *gate {
	return &gate{match: match, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if writes(r) && g.match(r) {
			g.once.Do(func() {
				close(g.reached)
				select {
				case <-g.open:
				case <-r.Context().Done():
				}
			})
		}
		return response, err
	})
}

// closes reports whether a request changes a node.
func closes(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/api/v1/nodes/")
}
