package eviction

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Path is where the webhook is served.
const Path = "/evictions"

// shutdownPatience is how long answers may take when the program ends.
const shutdownPatience = 5 * time.Second

// Server serves a webhook. Each replica of its program does, whoever leads.
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
	mux.Handle("POST "+Path, s.Handler)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		TLSConfig: &tls.Config{GetCertificate: s.Certificate, MinVersion: tls.VersionTLS12},
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

// Ready is a readiness check: there is a certificate to serve with.
func (s *Server) Ready(*http.Request) error {
	_, err := s.Certificate(nil)
	return err
}
