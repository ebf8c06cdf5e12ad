// Package meterclient asks node meters by HTTPS, with a token that is good for nothing else.
package meterclient

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

// Secure asks meters by HTTPS, with a token.
type Secure struct {
	// ServerName is the name in the meters' certificate.
	ServerName string
	// Authorities returns who signs it, in PEM. It is asked once a minute.
	Authorities func(context.Context) ([]byte, error)
	// TokenFile has the token; it is read for each question, since tokens are renewed.
	TokenFile string

	mu      sync.Mutex
	wire    *http.Transport
	trusted string
	at      time.Time
}

// authoritiesEvery is how often it is asked whom to trust. A certificate is renewed months
// before the one before it expires.
const authoritiesEvery = time.Minute

// askPatience is how long an answer may take.
const askPatience = 10 * time.Second

// Client returns a client that asks so. It follows no redirect.
func (s *Secure) Client() *http.Client {
	return &http.Client{Transport: s, Timeout: askPatience, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("a node meter does not send elsewhere")
	}}
}

// RoundTrip implements [http.RoundTripper].
func (s *Secure) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("a token is not shown by %s: want https", r.URL.Scheme)
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

// transport trusts whom the authorities say.
func (s *Secure) transport(ctx context.Context) (*http.Transport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil && time.Since(s.at) < authoritiesEvery {
		return s.wire, nil
	}
	text, err := s.Authorities(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out who signs the certificate of node meters: %w", err)
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
