package eviction

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/platform/servingcert"
)

// serve serves until the test ends, and returns the number of requests of the webhook and its
// address.
func serve(t *testing.T, change func(*Server)) (asked *int, address string) {
	t.Helper()
	pair, err := servingcert.New([]string{"127.0.0.1"}, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	served, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	asked = new(int)
	s := &Server{
		Handler:     http.HandlerFunc(func(http.ResponseWriter, *http.Request) { *asked++ }),
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return served, nil },
		Knows:       func(_ context.Context, secret string) bool { return secret == "right" },
	}
	if s.Listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	change(s)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return asked, s.Listener.Addr().String()
}

func post(address, path string, shown ...tls.Certificate) (int, error) {
	wire := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: shown}}
	answer, err := (&http.Client{Transport: wire}).Post("https://"+address+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func TestOnlyWhoKnowsTheSecretIsAnswered(t *testing.T) {
	asked, address := serve(t, func(*Server) {})
	for path, want := range map[string]int{Path + "/right": http.StatusOK, Path + "/wrong": http.StatusNotFound, Path + "/right/": http.StatusNotFound, Path: http.StatusNotFound, "/": http.StatusNotFound} {
		if code, err := post(address, path); err != nil || code != want {
			t.Errorf("%s is answered with %d (%v), want %d", path, code, err, want)
		}
	}
	if *asked != 1 {
		t.Errorf("the webhook was asked %d times, want once", *asked)
	}
}

// shows makes a certificate for a name, signed by an authority of its own.
func shows(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(made)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestClientCertificatesAreAskedForBesides(t *testing.T) {
	right, trusted := shows(t, "api-server")
	stranger, _ := shows(t, "api-server")
	asked, address := serve(t, func(s *Server) { s.ClientAuthorities, s.ClientNames = trusted, []string{"api-server"} })
	otherName, otherAddress := serve(t, func(s *Server) { s.ClientAuthorities, s.ClientNames = trusted, []string{"somebody"} })
	if code, err := post(address, Path+"/right", right); err != nil || code != http.StatusOK {
		t.Errorf("the right certificate is answered with %d, %v", code, err)
	}
	if code, err := post(address, Path+"/wrong", right); err != nil || code != http.StatusNotFound {
		t.Errorf("the right certificate with a wrong secret is answered with %d, %v", code, err)
	}
	for what, err := range map[string]error{
		"no certificate": second(post(address, Path+"/right")), "one of another authority": second(post(address, Path+"/right", stranger)),
		"one for another name": second(post(otherAddress, Path+"/right", right)),
	} {
		if err == nil {
			t.Errorf("who shows %s is answered", what)
		}
	}
	if *asked != 1 || *otherName != 0 {
		t.Errorf("the webhooks were asked %d and %d times, want once and never", *asked, *otherName)
	}
}

func second[A any](_ A, err error) error { return err }
