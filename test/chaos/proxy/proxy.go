// Package proxy is a proxy between one client and the API server. It simulates failures of the network
// and of the server. It also appends the name of the client to the user agent, so that the audit log
// distinguishes the replicas of a program.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"supercargo.dev/supercargo/test/chaos/ledger"
)

// Weather is the set of failures that the proxy simulates. The zero value forwards everything.
type Weather struct {
	// Refuse closes all connections and refuses new ones.
	Refuse bool
	// Swallow discards all traffic without an error. The connections are closed when it ends, because
	// the discarded data are lost.
	Swallow bool
	// Delay is how long each request is delayed.
	Delay time.Duration
	// TooMany is the share of requests, from 0 to 1, that are answered with 429 and Retry-After: 1.
	TooMany float64
	// LoseAnswers is the share of writes, from 0 to 1, that are carried out without an answer.
	LoseAnswers float64
}

// Proxy is the proxy of one client.
type Proxy struct {
	listener *listener
	server   *http.Server
	forward  *httputil.ReverseProxy
	random   func() float64

	mu      sync.Mutex
	weather Weather
	actor   ledger.Actor
	renewed time.Time
	watches map[*http.Request]context.CancelFunc

	hits  atomic.Int64
	ended chan struct{}
}

// New starts a proxy for the server at a URL on a free port of 127.0.0.1. It reaches the server with
// the transport, and serves TLS with the certificate. The seed determines which requests fail.
func New(server string, transport http.RoundTripper, certificate tls.Certificate, seed uint64) (*Proxy, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("read the URL of the API server: %w", err)
	}
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &Proxy{listener: newListener(inner), watches: map[*http.Request]context.CancelFunc{}, ended: make(chan struct{}), random: safe(rand.New(rand.NewPCG(seed, 2)))}
	quiet := log.New(io.Discard, "", 0) // failures are intended
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("User-Agent", r.In.UserAgent()+ledger.ActorMark+string(p.who()))
		},
		ModifyResponse: func(r *http.Response) error { p.answered(r); return nil },
		Transport:      transport, FlushInterval: -1, ErrorLog: quiet,
		// A broken connection, as if there were no proxy.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ErrorLog: quiet, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
	}
	go func() {
		defer close(p.ended)
		_ = p.server.ServeTLS(p.listener, "", "") // returns after Close
	}()
	return p, nil
}

// safe returns a random source of numbers in [0, 1) that is safe for concurrent use.
func safe(r *rand.Rand) func() float64 {
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}

// URL returns the URL that the proxy serves.
func (p *Proxy) URL() string { return "https://" + p.listener.Addr().String() }

// Serves sets the name of the client for the following requests.
func (p *Proxy) Serves(actor ledger.Actor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.actor = actor
}

func (p *Proxy) who() ledger.Actor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.actor
}

// answered records the time of a successful write of a Lease.
func (p *Proxy) answered(r *http.Response) {
	if r.Request.Method == http.MethodGet || r.StatusCode/100 != 2 || !strings.Contains(r.Request.URL.Path, "/leases") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewed = time.Now()
}

// Renewed returns when the client last wrote a Lease, or the zero time if it never did. Of several
// replicas, the leader is the one with the latest time.
func (p *Proxy) Renewed() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

// Set changes the weather.
func (p *Proxy) Set(w Weather) {
	p.mu.Lock()
	before := p.weather
	p.weather = w
	p.mu.Unlock()
	p.listener.set(w.Refuse, w.Swallow)
	if w.Refuse || before.Swallow && !w.Swallow {
		p.listener.cut()
	}
}

func (p *Proxy) now() Weather {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather
}

// Hits returns the number of requests and connections that the weather has affected so far.
func (p *Proxy) Hits() int64 { return p.hits.Load() + p.listener.hits.Load() }

// Watches returns the number of open watches.
func (p *Proxy) Watches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watches)
}

// ResetWatches ends all watches.
func (p *Proxy) ResetWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range p.watches {
		p.hits.Add(1)
		end()
	}
}

// Close stops the proxy and closes all connections.
func (p *Proxy) Close() error {
	p.listener.set(false, false)
	err := p.server.Close()
	p.listener.cut()
	<-p.ended
	return err
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	weather := p.now()
	if weather.Delay > 0 {
		p.hits.Add(1)
		select {
		case <-r.Context().Done():
			return
		case <-time.After(weather.Delay):
		}
	}
	if p.random() < weather.TooMany {
		p.hits.Add(1)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && p.random() < weather.LoseAnswers {
		p.hits.Add(1)
		p.forward.ServeHTTP(nowhere{}, r)
		panic(http.ErrAbortHandler)
	}
	if r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1" {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		r = r.WithContext(ctx)
		defer p.watched(r, end)()
	}
	p.forward.ServeHTTP(w, r)
}

// watched records an open watch. The returned function removes it.
func (p *Proxy) watched(r *http.Request, end context.CancelFunc) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[r] = end
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, r)
	}
}

// nowhere discards a response.
type nowhere struct{}

// Header implements http.ResponseWriter.
func (nowhere) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}

// errCut is the error of a read from a connection that was closed while its traffic was discarded.
var errCut = errors.New("the connection was cut")
