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

// Path is where the webhook is served. A secret comes behind it, in the URL as in the
// ValidatingWebhookConfiguration: PATH/SECRET.
const Path = "/evictions"

// mostHeaderBytes bounds what is read of callers who may be anybody.
const mostHeaderBytes = 16 << 10

// shutdownPatience is how long answers may take when the program ends.
const shutdownPatience = 5 * time.Second

// Server serves a webhook. Each replica of its program does, whoever leads.
//
// A review has side effects, so it must come from the API server, which shows no client
// certificate unless its administrator has configured one. So the URL that the API server
// is told has a secret, and nobody else is answered. ClientAuthorities ask for a client
// certificate besides.
type Server struct {
	// Handler answers at [Path].
	Handler http.Handler
	// Listener is where it serves; if it is nil, it listens at Address, as host:port, once
	// Wanted is closed. A nil Wanted is not waited for.
	Listener net.Listener
	Address  string
	Wanted   <-chan struct{}
	// Certificate returns what it serves with.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Knows reports whether a secret is one that the API server was told. It takes as
	// long for a wrong one whatever that is.
	Knows func(ctx context.Context, secret string) bool
	// ClientAuthorities sign the certificates that callers must show; nil asks for none.
	ClientAuthorities *x509.CertPool
	// ClientNames are the common names and DNS names of which such a certificate must have
	// one; empty takes all that ClientAuthorities have signed.
	ClientNames []string
}

// NeedLeaderElection says that every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends. Those who wait for an answer then get one.
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

// guarded is the handler for those who know the secret. Others are not told that there is
// anything here, and what they send is not read.
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
		leaf := state.PeerCertificates[0] // it was verified before
		if slices.Contains(s.ClientNames, leaf.Subject.CommonName) || slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return slices.Contains(s.ClientNames, name) }) {
			return nil
		}
		return fmt.Errorf("the client's certificate is for %q, and evictions are taken from %q only", leaf.Subject.CommonName, s.ClientNames)
	}
	return c
}

// Ready is a readiness check: there is a certificate to serve with.
func (s *Server) Ready(*http.Request) error {
	_, err := s.Certificate(nil)
	return err
}
