package meterapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Secure queries meters by HTTPS, with a token.
type Secure struct {
	// ServerName is the name in the meters' certificate.
	ServerName string
	// Authorities returns the certificate authorities of the meters in PEM. It is called once a minute.
	Authorities func(context.Context) ([]byte, error)
	// TokenFile contains the token. It is read for each request because tokens are rotated.
	TokenFile string

	mu      sync.Mutex
	wire    *http.Transport
	trusted string
	at      time.Time
}

// authoritiesEvery is the interval at which Authorities is called. Certificates are renewed months before they expire.
const authoritiesEvery = time.Minute

// askPatience is the timeout of a request.
const askPatience = 10 * time.Second

// Client returns a client that uses s as transport. It follows no redirects.
func (s *Secure) Client() *http.Client {
	return &http.Client{Transport: s, Timeout: askPatience, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("node meters must not redirect")
	}}
}

// RoundTrip implements [http.RoundTripper].
func (s *Secure) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("a token is not sent by %s: must be https", r.URL.Scheme)
	}
	wire, err := s.transport(r.Context())
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(s.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the token for node meters: %w", err)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return wire.RoundTrip(r)
}

// transport returns a transport that trusts the current authorities.
func (s *Secure) transport(ctx context.Context) (*http.Transport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil && time.Since(s.at) < authoritiesEvery {
		return s.wire, nil
	}
	text, err := s.Authorities(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority of node meters: %w", err)
	}
	s.at = time.Now()
	if s.wire != nil && s.trusted == string(text) {
		return s.wire, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("the certificate authority of the node meters is not published yet")
	}
	if s.wire != nil {
		s.wire.CloseIdleConnections()
	}
	s.trusted = string(text)
	s.wire = &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: s.ServerName}, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: askPatience, MaxResponseHeaderBytes: 16 << 10,
	}
	return s.wire, nil
}
