//go:build install

package install

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// dashboardAdmits opens the dashboard through a forwarded port, as docs/dashboard.md says: without a token, with that
// of an account that may see it, and with that of one that may not.
func (s *site) dashboardAdmits() {
	s.kubectl("create", "serviceaccount", "viewer")
	s.kubectl("create", "serviceaccount", "stranger")
	s.kubectl("create", "clusterrolebinding", "viewer", "--clusterrole=supercargo-dashboard-reader", "--serviceaccount=default:viewer")
	token := func(account string) string {
		return strings.TrimSpace(s.kubectl("create", "token", account, "--audience=dashboard.supercargo.dev"))
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM([]byte(s.get(`{.data.ca\.crt}`, "configmap", "supercargo-dashboard", "-n", namespace))) {
		s.Fatal("ConfigMap supercargo-dashboard has no certificate of its authority")
	}
	address := s.forwarded("service/supercargo-dashboard", "443")
	for name, tc := range map[string]struct {
		token string
		code  int
		says  string
	}{
		"nobody":   {"", http.StatusOK, "token"}, // the form
		"viewer":   {token("viewer"), http.StatusOK, "Supercargo"},
		"stranger": {token("stranger"), http.StatusForbidden, ""},
	} {
		s.eventually(fmt.Sprintf("the dashboard answers %s with %d", name, tc.code), func() error {
			return asks("https://"+address+"/", tc.token, authority, tc.code, tc.says)
		})
	}
	s.kubectl("delete", "clusterrolebinding", "viewer")
	s.kubectl("delete", "serviceaccount", "viewer", "stranger")
}

// asks sends a request, and returns an error if the answer has another status or lacks a text.
func asks(url, token string, authority *x509.CertPool, code int, says string) error {
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: authority, ServerName: "localhost"}}}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && (response.StatusCode != code || !strings.Contains(string(text), says)) {
		err = fmt.Errorf("it answers %s: %.200s", response.Status, text)
	}
	return err
}

// forwarding matches what kubectl prints when it forwards a port.
var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) `)

// forwarded forwards a local port to a port of an object until the test ends, and returns its address.
func (s *site) forwarded(object, port string) string {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	cmd := exec.CommandContext(ctx, "kubectl", "--namespace", namespace, "port-forward", "--address", "127.0.0.1", object, ":"+port)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "HOME="+s.Dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		s.Fatal(err)
	}
	s.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if match := forwarding.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return match[1]
		}
	}
	s.Fatalf("kubectl port-forward %s does not forward", object)
	return ""
}
