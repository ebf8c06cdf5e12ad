package meterapi

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// secured returns a meter that requires a token and redirects from /old, a client of it, and the token's file.
func secured(t *testing.T) (*httptest.Server, *Secure, string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		Handler(meter).ServeHTTP(w, r)
	}))
	mux.Handle("/old/", http.RedirectHandler(Path, http.StatusFound))
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	token := testfile.New(t, "token", "secret\n")
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server, &Secure{ServerName: "example.com", TokenFile: token, Authorities: func(context.Context) ([]byte, error) { return trusted, nil }}, token
}

func TestATokenIsShownToTheMeterOnly(t *testing.T) {
	stranger := func(s *Secure, _ *string) { s.ServerName = "other.com" }
	for name, tc := range map[string]struct {
		change func(s *Secure, url *string)
		want   string // empty for no error
	}{
		"that is trusted":             {func(*Secure, *string) {}, ""},
		"not to one of another name":  {stranger, "not other.com"},
		"not without encryption":      {func(_ *Secure, url *string) { *url = strings.Replace(*url, "https", "http", 1) }, "must be https"},
		"not after a redirect":        {func(_ *Secure, url *string) { *url += "/old" }, "must not redirect"},
		"not while no one is trusted": {func(s *Secure, _ *string) { s.Authorities = func(context.Context) ([]byte, error) { return nil, nil } }, "is not published yet"},
		"not if that is unknown": {func(s *Secure, _ *string) {
			s.Authorities = func(context.Context) ([]byte, error) { return nil, errors.New("away") }
		}, "read the certificate authority of node meters: away"},
		"not without one":       {func(s *Secure, _ *string) { s.TokenFile += "x" }, "read the token for node meters"},
		"and it must be theirs": {func(s *Secure, _ *string) { _ = os.WriteFile(s.TokenFile, []byte("other"), 0o600) }, "401"},
	} {
		t.Run(name, func(t *testing.T) {
			server, s, _ := secured(t)
			url := server.URL
			tc.change(s, &url)
			u, known, err := Client{URL: url, HTTP: s.Client()}.Usage(t.Context(), noon, noon.Add(time.Second))
			if tc.want == "" && (err != nil || !known || u.Measured != 10) {
				t.Errorf("%+v, known: %t, %v", u, known, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestATokenIsReadForEachRequest because it is rotated, and the authorities once a minute.
func TestATokenIsReadForEachRequest(t *testing.T) {
	server, s, token := secured(t)
	asked, authorities := 0, s.Authorities
	s.Authorities = func(ctx context.Context) ([]byte, error) {
		asked++
		return authorities(ctx)
	}
	c := Client{URL: server.URL, HTTP: s.Client()}
	for i, text := range []string{"secret", "old", "secret"} {
		testfile.Write(t, token, text)
		if _, _, err := c.Usage(t.Context(), noon, noon.Add(time.Second)); (err == nil) != (text == "secret") {
			t.Errorf("request %d with token %q: %v", i, text, err)
		}
	}
	if asked != 1 {
		t.Errorf("the authorities are read %d times, want once", asked)
	}
}
