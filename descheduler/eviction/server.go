package eviction

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

// Path is the path of the webhook. A secret follows in the URL of the
// ValidatingWebhookConfiguration: PATH/SECRET.
const Path = "/evictions"

// mostHeaderBytes bounds the header of a request, since anyone may send one.
const mostHeaderBytes = 16 << 10

// shutdownPatience is how long pending answers may take when the program ends.
const shutdownPatience = 5 * time.Second

// Server serves a webhook, in every replica of its program, leader or not.
//
// A review has side effects, so it must come from the API server, which presents no client
// certificate unless its administrator has configured one. Therefore the URL for the API server
// contains a secret, and requests without it are refused. ClientAuthorities request a client
// certificate in addition.
type Server struct {
	// Handler answers at [Path].
	Handler http.Handler
	// Listener is the listener to serve on. If it is nil, the server listens at Address, as
	// host:port, once Wanted is closed, or at once if Wanted is nil.
	Listener net.Listener
	Address  string
	Wanted   <-chan struct{}
	// Certificate returns the server's certificate.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Knows reports whether a secret is valid, in constant time.
	Knows func(ctx context.Context, secret string) bool
	// ClientAuthorities are the authorities of client certificates; nil to request none.
	ClientAuthorities *x509.CertPool
	// ClientNames are the accepted common names and DNS names of a client certificate; empty for
	// any that ClientAuthorities have signed.
	ClientNames []string
}

// NeedLeaderElection returns false: every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends. Pending requests then still get an answer.
func (s *Server) Start(ctx context.Context) error {
	listener := s.Listener
	if listener == nil {
		if s.Wanted != nil {
			select {
			case <-s.Wanted:
			case <-ctx.Done():
				return nil
			}
		}
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address); err != nil {
			return fmt.Errorf("listen for evictions at %s: %w", s.Address, err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+Path+"/{secret}", s.guarded())
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: mostHeaderBytes,
		TLSConfig: s.tls(),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
		defer cancel()
		stopped <- server.Shutdown(patient)
	}()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve evictions: %w", err)
	}
	return <-stopped
}

// guarded returns the handler for callers with the secret. Others get a 404, and their body is
// not read.
func (s *Server) guarded() http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if !s.Knows(in.Context(), in.PathValue("secret")) {
			http.NotFound(out, in)
			return
		}
		s.Handler.ServeHTTP(out, in)
	})
}

func (s *Server) tls() *tls.Config {
	c := &tls.Config{GetCertificate: s.Certificate, MinVersion: tls.VersionTLS12}
	if s.ClientAuthorities == nil {
		return c
	}
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, s.ClientAuthorities
	if len(s.ClientNames) == 0 {
		return c
	}
	c.VerifyConnection = func(state tls.ConnectionState) error {
		leaf := state.PeerCertificates[0] // already verified
		if slices.Contains(s.ClientNames, leaf.Subject.CommonName) || slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return slices.Contains(s.ClientNames, name) }) {
			return nil
		}
		return fmt.Errorf("the client's certificate is for %q: must be for one of %q", leaf.Subject.CommonName, s.ClientNames)
	}
	return c
}

// Ready is a readiness check. It succeeds if there is a certificate.
func (s *Server) Ready(*http.Request) error {
	_, err := s.Certificate(nil)
	return err
}
