// Package proxy stands between a client and the API server, and does to their requests and
// connections what networks and servers do on bad days. It also says in the user agent who the
// client is, so that the audit log tells replicas of one program apart.
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

// Weather is what the proxy does. The zero value passes everything on.
type Weather struct {
	// Refuse cuts all connections and refuses new ones.
	Refuse bool
	// Swallow has nothing pass, and tells nobody. What was swallowed is lost: when it ends,
	// the connections are cut.
	Swallow bool
	// Delay is for how long each request waits.
	Delay time.Duration
	// TooMany is the share of requests, from 0 to 1, that are answered with 429 and a
	// Retry-After of one second.
	TooMany float64
	// LoseAnswers is the share of writes that are carried out and not answered.
	LoseAnswers float64
}

// Proxy serves one client.
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

// New starts a proxy on a free port of 127.0.0.1 for the server at a URL, which it reaches by
// the transport. It serves with the certificate. The seed is for what it draws.
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
	quiet := log.New(io.Discard, "", 0) // what breaks is meant to
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("User-Agent", r.In.UserAgent()+ledger.ActorMark+string(p.who()))
		},
		ModifyResponse: func(r *http.Response) error { p.answered(r); return nil },
		Transport:      transport, FlushInterval: -1, ErrorLog: quiet,
		// As if there were no proxy: a connection that breaks.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ErrorLog: quiet, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
	}
	go func() {
		defer close(p.ended)
		_ = p.server.ServeTLS(p.listener, "", "") // until Close
	}()
	return p, nil
}

// safe returns a source of shares that many may draw from.
func safe(r *rand.Rand) func() float64 {
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}

// URL returns where it serves.
func (p *Proxy) URL() string { return "https://" + p.listener.Addr().String() }

// Serves says who the client is from now on.
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

// answered notes that the client has written a Lease.
func (p *Proxy) answered(r *http.Response) {
	if r.Request.Method == http.MethodGet || r.StatusCode/100 != 2 || !strings.Contains(r.Request.URL.Path, "/leases") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewed = time.Now()
}

// Renewed returns when the client last wrote a Lease: of several, the one that did so last is
// the leader. Zero if none did.
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

// Hits returns how many requests and connections the weather has struck so far.
func (p *Proxy) Hits() int64 { return p.hits.Load() + p.listener.hits.Load() }

// Watches returns how many watches are open.
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

// Close ends it, and all connections.
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

// watched notes a watch until what it returns is called.
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

// nowhere takes an answer that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// errCut is what a connection says that was cut.
var errCut = errors.New("the connection was cut")
