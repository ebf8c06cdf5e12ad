// Package kit contains what integration tests of several programs share: a control plane for all tests of a
// package, connections that are observed, delayed or cut, logs that are shown when a test fails, and waiting.
package kit

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is a function that sends requests.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Selector is a selector that is added to the requests of a list or a watch.
type Selector struct {
	// Parameter is labelSelector or fieldSelector.
	Parameter, Value string
}

// View restricts a client to the objects that match the selectors, by the paths of lists, so that tests that
// share a cluster do not interfere. The result is for rest.Config.Wrap.
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

// Writes reports whether a request changes an object other than an Event or a Lease.
func Writes(r *http.Request) bool {
	path := strings.Split(r.URL.Path, "/")
	return r.Method != http.MethodGet && r.Method != http.MethodHead && !slices.Contains(path, "events") && !slices.Contains(path, "leases")
}

// ErrCut is the error of a connection that was cut.
var ErrCut = errors.New("the connection was cut")

// Cut is a connection that breaks permanently at one write.
type Cut struct {
	// Match selects the writes that count; nil counts all.
	Match func(*http.Request) bool
	// at is the number of the write, counted from 1.
	at int64
	// sent means that this write reaches the API server, and only its answer is lost.
	sent bool

	seen  atomic.Int64
	What  string        // the write at which it broke; may be read once it has
	broke chan struct{} // closed when it broke
}

// NewCut returns a connection that breaks at that write, before or after the write has reached the API
// server.
func NewCut(at int64, sent bool) *Cut { return &Cut{at: at, sent: sent, broke: make(chan struct{})} }

// Broken reports whether the connection has broken.
func (c *Cut) Broken() bool {
	select {
	case <-c.broke:
		return true
	default:
		return false
	}
}

// Wrap is an argument for rest.Config.Wrap.
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
		_, _ = io.Copy(io.Discard, response.Body) // so that the request has been processed
		_ = response.Body.Close()
		return nil, ErrCut
	})
}

// Gate blocks a client after its first matching write, until it is opened.
type Gate struct {
	match func(*http.Request) bool
	once  sync.Once
	// Reached is closed when the client is blocked. It continues when the test closes Open.
	Reached, Open chan struct{}
}

// NewGate returns a Gate for the requests that match.
func NewGate(match func(*http.Request) bool) *Gate {
	return &Gate{match: match, Reached: make(chan struct{}), Open: make(chan struct{})}
}

// Wrap is an argument for rest.Config.Wrap.
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

// Slowly delays each request, for rest.Config.Wrap.
func Slowly(delay time.Duration) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return Transport(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(delay):
				return next.RoundTrip(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
	}
}

// InBursts delivers the events of each watch together, so far apart, for rest.Config.Wrap.
func InBursts(apart time.Duration) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return Transport(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if watch := r.URL.Query().Get("watch"); err != nil || watch != "true" && watch != "1" {
				return response, err
			}
			b := &bursts{ReadCloser: response.Body, ticker: time.NewTicker(apart), closed: make(chan struct{})}
			go b.receive()
			response.Body = b
			return response, nil
		})
	}
}

// bursts is the body of a watch, of which a read returns only what was received before a tick.
type bursts struct {
	io.ReadCloser
	ticker *time.Ticker
	close  sync.Once
	closed chan struct{}
	ready  []byte // received before the last tick

	mu       sync.Mutex
	received []byte // since then
	err      error
}

// receive reads the body until it ends.
func (b *bursts) receive() {
	chunk := make([]byte, 64<<10)
	for {
		n, err := b.ReadCloser.Read(chunk)
		b.mu.Lock()
		b.received, b.err = append(b.received, chunk[:n]...), err
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (b *bursts) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		select {
		case <-b.closed:
			return 0, io.ErrClosedPipe
		case <-b.ticker.C:
		}
		b.mu.Lock()
		received, err := b.received, b.err
		b.received = nil
		b.mu.Unlock()
		if b.ready = received; len(received) == 0 && err != nil {
			return 0, err
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *bursts) Close() error {
	b.close.Do(func() { b.ticker.Stop(); close(b.closed) })
	return b.ReadCloser.Close()
}
