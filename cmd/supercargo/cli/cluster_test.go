package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

// clusterCommands are command lines that need a cluster, by command.
func clusterCommands(t *testing.T) map[string][][]string {
	return map[string][][]string{
		"adopt":     {{"adopt", "nodepool/x"}, {"adopt", "nodepools"}, {"adopt", "machinedeployments"}},
		"audit":     {{"audit"}},
		"cost":      {{"report", "cost"}},
		"dashboard": {{"dashboard"}},
		"explain":   {{"explain", "pod", "x"}, {"explain", "pods"}, {"explain", "node", "x"}, {"explain", "nodefleet", "x"}, {"explain", "consolidation"}},
		"migrate":   {{"migrate", "x"}},
		"pause":     {{"pause"}},
		"record":    {{"record", "-o", filepath.Join(t.TempDir(), "x.csv")}},
		"resume":    {{"resume"}},
	}
}

// TestEveryCommandOfAClusterSaysWhichRightIsMissing: an API server that refuses everything, as to an anonymous user, and
// one that does not accept the credentials. A request that the authorizer refuses names its permission.
func TestEveryCommandOfAClusterSaysWhichRightIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		code         int
		reason, says string
	}{
		"forbidden":    {http.StatusForbidden, "Forbidden", "log in, or use another account"},
		"unauthorized": {http.StatusUnauthorized, "Unauthorized", "does not accept your credentials: log in again"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.code)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": "%s is refused: User \"x\" cannot %s it"}`, tc.reason, tc.code, r.URL.Path, r.Method)
		}))
		defer server.Close()
		kubeconfig := kubeconfigOf(t, server.URL)
		for _, lines := range clusterCommands(t) {
			for _, line := range lines {
				if line[0] == "dashboard" {
					continue // its own test, and its page says so
				}
				code, stdout, stderr := supercargo(t, "", append(line, "--kubeconfig", kubeconfig)...)
				if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, tc.says) && !strings.Contains(stderr, "ask an administrator of the cluster for this permission") {
					t.Errorf("%s, %v: exit code %d, stdout %q, stderr %q", name, line, code, stdout, stderr)
				}
			}
		}
	}
}

func TestEveryCommandOfAClusterSaysWhatToDoWithoutOne(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	unreachable := commandtest.File(t, `{apiVersion: v1, kind: Config, current-context: work, contexts: [{name: work, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "`+gone.URL+`"}}]}`)
	lines := clusterCommands(t)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if flag := cmd.Flags().Lookup("kubeconfig"); flag == nil || flag.Annotations == nil {
			return
		}
		if len(lines[cmd.Name()]) == 0 {
			t.Errorf("%s needs a cluster, and is not tested without one", cmd.Name())
		}
		for _, line := range lines[cmd.Name()] {
			t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
			code, stdout, stderr := supercargo(t, "", line...)
			if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, "supercargo: no cluster is configured: ") || strings.Contains(stderr, "localhost") {
				t.Errorf("%v without a kubeconfig: exit code %d, stdout %q, stderr %q", line, code, stdout, stderr)
			}
			if cmd.Name() == "dashboard" {
				continue // its page says so
			}
			code, stdout, stderr = supercargo(t, "", append(line, "--kubeconfig", unreachable)...)
			if code != command.ExitFailed || stdout != "" || !strings.HasPrefix(stderr, "supercargo: the API server "+gone.URL+` of context "work" cannot be reached: `) {
				t.Errorf("%v without a server: exit code %d, stdout %q, stderr %q", line, code, stdout, stderr)
			}
		}
	}
	check(allCommands())
}

// TestAPauseInANamespaceThatDoesNotExistSaysThatNothingIsThere, and which option selects another one. A server that has no
// ConfigMaps says nothing about the namespace.
func TestAPauseInANamespaceThatDoesNotExistSaysThatNothingIsThere(t *testing.T) {
	noNamespace := map[string]string{
		"/api":    `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":   `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
		"/api/v1": `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps", "namespaced": true, "kind": "ConfigMap", "verbs": ["create"]}]}`,
	}
	const said = "namespace supercargo-system does not exist, so no program of Supercargo runs there: -n selects another namespace"
	for _, tc := range []struct {
		name    string
		answers map[string]string
		says    bool
	}{{"no namespace", noNamespace, true}, {"no API server", nil, false}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if answer := tc.answers[r.URL.Path]; answer != "" {
				fmt.Fprint(w, answer)
				return
			}
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "namespaces \"supercargo-system\" not found", "details": {"name": "supercargo-system", "kind": "namespaces"}}`)
		}))
		defer server.Close()
		code, stdout, stderr := supercargo(t, "", "pause", "--kubeconfig", kubeconfigOf(t, server.URL))
		if code != command.ExitFailed || stdout != "" || strings.Contains(stderr, said) != tc.says {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", tc.name, code, stdout, stderr)
		}
	}
}

// TestExplainPodsOfANamespaceThatDoesNotExistRefusesIt, and continues if it may not ask.
func TestExplainPodsOfANamespaceThatDoesNotExistRefusesIt(t *testing.T) {
	for _, tc := range []struct {
		reason       string
		status, code int
		refused      bool
	}{
		{"NotFound", http.StatusNotFound, command.ExitUsage, true},
		{"Forbidden", http.StatusForbidden, command.ExitFailed, false}, // pods cannot be read either
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/api":
				fmt.Fprint(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
			case "/apis":
				fmt.Fprint(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`)
			case "/api/v1":
				fmt.Fprint(w, `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "namespaces", "kind": "Namespace", "verbs": ["get"]}]}`)
			default:
				w.WriteHeader(tc.status)
				fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": "no"}`, tc.reason, tc.status)
			}
		}))
		defer server.Close()
		code, stdout, stderr := supercargo(t, "", "explain", "pods", "-n", "nosuch", "--kubeconfig", kubeconfigOf(t, server.URL))
		if said := strings.HasPrefix(stderr, `supercargo: namespace "nosuch" does not exist`); code != tc.code || stdout != "" || said != tc.refused {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", tc.reason, code, stdout, stderr)
		}
	}
}
