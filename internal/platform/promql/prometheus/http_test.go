package prometheus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// mutual serves those who have a client certificate, a password and a tenant. It writes what they need to a folder.
func mutual(t *testing.T) (server *httptest.Server, folder string) {
	t.Helper()
	folder = t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, asked, asked, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "me" || password != "secret" || r.Header.Get("X-Scope-OrgID") != "a" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	}))
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(inPEM("CERTIFICATE", signed))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	testfile.Write(t, filepath.Join(folder, "ca.crt"), inPEM("CERTIFICATE", server.Certificate().Raw))
	testfile.Write(t, filepath.Join(folder, "tls.crt"), inPEM("CERTIFICATE", signed))
	testfile.Write(t, filepath.Join(folder, "tls.key"), inPEM("PRIVATE KEY", private))
	testfile.Write(t, filepath.Join(folder, "password"), "secret")
	return server, folder
}

func inPEM(kind string, bytes []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
}

func TestAnHTTPConfigIsThatOfPrometheus(t *testing.T) {
	server, folder := mutual(t)
	const (
		tenant   = "http_headers: {X-Scope-OrgID: {values: [a]}}\n"
		password = "basic_auth: {username: me, password_file: password}\n"
		tls      = "tls_config: {ca_file: ca.crt, cert_file: tls.crt, key_file: tls.key}\n"
	)
	for text, says := range map[string]string{
		tls + password + tenant: "",
		tls + password:          "401",
		tls + tenant:            "401",
		"tls_config: {ca_file: ca.crt}\n" + password:   "certificate",
		"tls_config: {cert_file: tls.crt}\n":           "key",
		"basic_auth: {username: me, passwort: secret}": "passwort",
		"tls_config: {": "yaml",
	} {
		path := filepath.Join(folder, "http.yaml")
		testfile.Write(t, path, text)
		c, err := New(Config{URL: server.URL, HTTPConfigFile: path})
		if err == nil {
			_, err = c.Query(t.Context(), "x", at)
			c.Close()
		}
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", text, err)
		}
	}
}

func TestNoRedirectIsFollowedWhateverTheHTTPConfigSays(t *testing.T) {
	asked := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	c := client(t, Config{URL: s.URL, HTTPConfigFile: testfile.New(t, "http.yaml", "follow_redirects: true\n")})
	if _, err := c.Query(t.Context(), "x", at); err == nil || asked {
		t.Errorf("error %v, another server was asked: %v", err, asked)
	}
}

func TestCredentialsOfAnHTTPConfigAreNotSentUnencrypted(t *testing.T) {
	for text, refused := range map[string]bool{
		"basic_auth: {username: me, password_file: p}":          true,
		"authorization: {credentials_file: t}":                  true,
		"oauth2: {client_id: a, token_url: 'https://a'}":        true,
		"http_headers: {X-Key: {files: [k]}}":                   true,
		"http_headers: {X-Key: {secrets: [k]}}":                 true,
		"http_headers: {X-Scope-OrgID: {values: [a]}}":          false,
		"proxy_url: 'http://proxy:3128'\nenable_http2: false\n": false,
	} {
		_, err := New(Config{URL: "http://server", HTTPConfigFile: testfile.New(t, "http.yaml", text)})
		if got := err != nil && strings.Contains(err.Error(), "not sent unencrypted"); got != refused || err != nil && !refused {
			t.Errorf("%s: %v, want a refusal: %v", text, err, refused)
		}
	}
}

func TestAnHTTPConfigExcludesTheFilesThatItNames(t *testing.T) {
	file := testfile.New(t, "http.yaml", "enable_http2: true\n")
	for says, c := range map[string]Config{
		"caFile: excluded by httpConfigFile":    {URL: "https://a", CAFile: "/ca", HTTPConfigFile: file},
		"tokenFile: excluded by httpConfigFile": {URL: "https://a", TokenFile: "/token", HTTPConfigFile: file},
		"read httpConfigFile /none":             {URL: "https://a", HTTPConfigFile: "/none"},
		"must be at most 1048576":               {URL: "https://a", HTTPConfigFile: testfile.New(t, "big.yaml", "#"+strings.Repeat("x", maxHTTPConfig))},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want it to say %q", err, says)
		}
	}
}
