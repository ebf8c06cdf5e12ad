package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

func TestTheDashboardRefusesWrongInputByFlag(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"an argument", []string{"x"}, []string{`"x"`}},
		{"times that cannot be", []string{"--audit-interval", "-1s", "--scaling-cycle", "0s"}, []string{"--audit-interval -1s", "--scaling-cycle 0s"}},
		{"an address without a port", []string{"--address", "localhost"}, []string{`--address "localhost"`, "host:port"}},
		{"a Secret without a namespace", []string{"--certificate-secret", "board"}, []string{`--certificate-secret "board"`, "namespace/name"}},
		{"a browser in a pod", []string{"--authorize", "--open"}, []string{"--open", "--authorize"}},
		{"no such prices", []string{"--prices", "none.csv"}, []string{"--prices", "none.csv"}},
		{"no such kubeconfig", []string{"--kubeconfig", "none"}, []string{"--kubeconfig none: there is no such file"}},
		{"an address of somebody else, for users", []string{"--authorize", "--kubeconfig", kubeconfigOf(t, "http://127.0.0.1:1"), "--address", "192.0.2.1:80"}, []string{"--address 192.0.2.1:80"}},
		{"an address of somebody else", []string{"--kubeconfig", kubeconfigOf(t, "http://127.0.0.1:1"), "--address", "192.0.2.1:80"}, []string{"--address 192.0.2.1:80"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, "", append([]string{"dashboard"}, tc.args...)...)
			if code != command.ExitUsage || stdout != "" {
				t.Errorf("exit code %d with %q on stdout, want %d and nothing", code, stdout, command.ExitUsage)
			}
			for _, want := range tc.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr %q does not say %q", stderr, want)
				}
			}
		})
	}
}

// kubeconfigOf writes a kubeconfig for a server.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	return commandtest.File(t, `
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "`+server+`"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
`)
}

func TestADashboardThatMayNotReadNodesEndsAndSaysSo(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case "/api/v1":
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[
				{"name":"nodes","kind":"Node","verbs":["list","watch"]},{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list","watch"]}]}`)
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"you may not","reason":"Forbidden","code":403}`)
		}
	}))
	defer api.Close()
	code, stdout, stderr := supercargo(t, "", "dashboard", "--kubeconfig", kubeconfigOf(t, api.URL))
	if code != command.ExitFailed || !strings.Contains(stderr, "permission missing: the dashboard must list and watch nodes: ") || !strings.Contains(stderr, "you may not") {
		t.Errorf("exit code %d, stderr %q; want %d and that nodes may not be watched", code, stderr, command.ExitFailed)
	}
	address, err := url.Parse(strings.TrimSpace(stdout))
	if err != nil || address.Hostname() != "127.0.0.1" || address.Query().Get("token") == "" {
		t.Errorf("stdout is %q, want the address of the page on this computer, with a token", stdout)
	}
}

// interrupting is a writer that cancels a context on each write.
type interrupting struct {
	bytes.Buffer
	interrupt context.CancelFunc
}

func (w *interrupting) Write(text []byte) (int, error) {
	w.interrupt()
	return w.Buffer.Write(text)
}

func TestADashboardThatIsInterruptedEndsInOrder(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })) // it never answers
	defer api.Close()
	defer api.CloseClientConnections()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &interrupting{interrupt: interrupt}
	var errs bytes.Buffer
	if code := run(ctx, []string{"supercargo", "dashboard", "--kubeconfig", kubeconfigOf(t, api.URL)}, strings.NewReader(""), out, &errs); code != command.ExitOK || strings.Count(errs.String(), "\n") > 1 {
		t.Errorf("exit code %d, stderr %q; want %d and at most that it connects", code, errs.String(), command.ExitOK)
	}
	if !strings.HasPrefix(out.String(), "http://127.0.0.1:") {
		t.Errorf("stdout is %q, want the address of the page", out.String())
	}
}
