// Package kit has what integration tests of several programs share: a control plane
// that all tests of a package use, connections that are watched, held up or cut, logs
// that are shown when a test fails, and waiting.
package kit

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Transport is a function that sends requests.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Selector is what a list or a watch is asked for beside what it asks for itself.
type Selector struct {
	// Parameter is labelSelector or fieldSelector.
	Parameter, Value string
}

// View shows a client no more of the cluster than the selectors say, by the paths of
// lists: so tests that share a cluster do not see one another. The result is for
// rest.Config.Wrap.
func View(selectors map[string]Selector) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return Transport(func(r *http.Request) (*http.Response, error) {
			s, ok := selectors[r.URL.Path]
			if !ok || r.Method != http.MethodGet {
				return next.RoundTrip(r)
			}
			r = r.Clone(r.Context())
			query := r.URL.Query()
			if given := query.Get(s.Parameter); given != "" {
				s.Value = given + "," + s.Value
			}
			query.Set(s.Parameter, s.Value)
			r.URL.RawQuery = query.Encode()
			return next.RoundTrip(r)
		})
	}
}

// Writes reports whether a request changes what counts: not an Event, not a lease.
func Writes(r *http.Request) bool {
	path := strings.Split(r.URL.Path, "/")
	return r.Method != http.MethodGet && r.Method != http.MethodHead && !slices.Contains(path, "events") && !slices.Contains(path, "leases")
}

// Ledger notes the writes of a client and the requests that it was forbidden.
type Ledger struct {
	mu               sync.Mutex
	written, forbade []string
}

// Wrap is for rest.Config.Wrap.
func (l *Ledger) Wrap(next http.RoundTripper) http.RoundTripper {
	return Transport(func(r *http.Request) (*http.Response, error) {
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

// Read returns what was written and what was forbidden so far.
func (l *Ledger) Read() (written, forbade []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.written), slices.Clone(l.forbade)
}

// ErrCut is what a connection says that was cut.
var ErrCut = errors.New("the connection was cut")

// Cut is a connection that breaks for good at one write.
type Cut struct {
	// Match chooses the writes that count; nil counts all.
	Match func(*http.Request) bool
	// at which of them, counted from 1.
	at int64
	// sent says that this write reaches the API server, and only its answer is lost.
	sent bool

	seen  atomic.Int64
	What  string        // the write at which it broke; to be read once it has
	broke chan struct{} // closed when it broke
}

// NewCut returns a connection that breaks at that write, before or after it has reached the
// API server.
func NewCut(at int64, sent bool) *Cut { return &Cut{at: at, sent: sent, broke: make(chan struct{})} }

// Broken reports whether it has broken.
func (c *Cut) Broken() bool {
	select {
	case <-c.broke:
		return true
	default:
		return false
	}
}

// Wrap is for rest.Config.Wrap.
func (c *Cut) Wrap(next http.RoundTripper) http.RoundTripper {
	return Transport(func(r *http.Request) (*http.Response, error) {
		if c.Broken() {
			return nil, ErrCut
		}
		if !Writes(r) || c.Match != nil && !c.Match(r) || c.seen.Add(1) != c.at {
			return next.RoundTrip(r)
		}
		c.What = r.Method + " " + r.URL.Path
		defer close(c.broke)
		if !c.sent {
			return nil, ErrCut
		}
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body) // so that it has been carried out
		_ = response.Body.Close()
		return nil, ErrCut
	})
}

// Gate holds a client back after its first write that matches, until it is opened.
type Gate struct {
	match func(*http.Request) bool
	once  sync.Once
	// Reached is closed when it holds the client back, until somebody closes Open.
	Reached, Open chan struct{}
}

// NewGate returns one for the requests that match.
func NewGate(match func(*http.Request) bool) *Gate {
	return &Gate{match: match, Reached: make(chan struct{}), Open: make(chan struct{})}
}

// Wrap is for rest.Config.Wrap.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper {
	return Transport(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if Writes(r) && g.match(r) {
			g.once.Do(func() {
				close(g.Reached)
				select {
				case <-g.Open:
				case <-r.Context().Done():
				}
			})
		}
		return response, err
	})
}
