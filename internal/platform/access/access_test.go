package access_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/access"
	"supercargo.dev/supercargo/internal/platform/kinds"
)

// kubeconfig writes a kubeconfig of one cluster, and returns its path.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["production"] = &clientcmdapi.Context{Cluster: "c"}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "production"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// load returns the explained error of a request to a cluster.
func load(ctx context.Context, path string, overrides clientcmd.ConfigOverrides) error {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: []string{path}}
	kubeconfig := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &overrides)
	config, err := kubeconfig.ClientConfig()
	if err != nil {
		return err
	}
	raw, err := kubeconfig.RawConfig()
	if err != nil {
		return err
	}
	access.Mark(config, cmp.Or(overrides.CurrentContext, raw.CurrentContext))
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	return access.Explain(err)
}

// refusing answers every request with a status.
func refusing(t *testing.T, code int, reason metav1.StatusReason, message string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// closed returns the address of a server that has gone.
func closed() string {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}

func TestEachObstacleHasItsOwnSentenceThatSaysWhatToDo(t *testing.T) {
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	unreachable := closed()
	for _, tc := range []struct {
		name, path, context string
		says                []string
	}{
		{"no server", kubeconfig(t, unreachable), "", []string{"the API server " + unreachable + ` of context "production" cannot be reached`, "connection refused", "VPN"}},
		{"no server of another context", kubeconfig(t, unreachable), "test", []string{`of context "test" cannot be reached`}},
		{"a certificate of nobody known", kubeconfig(t, untrusted.URL), "", []string{"the certificate of the API server " + untrusted.URL, "is not trusted: x509", "get a new kubeconfig"}},
		{"wrong credentials", kubeconfig(t, refusing(t, 401, metav1.StatusReasonUnauthorized, "Unauthorized").URL), "", []string{"Unauthorized", "does not accept your credentials: log in again"}},
		{"no permission", kubeconfig(t, refusing(t, 403, metav1.StatusReasonForbidden, `nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope`).URL), "",
			[]string{`User "jane" cannot list resource "nodes"`, "ask an administrator of the cluster for this permission"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := load(t.Context(), tc.path, clientcmd.ConfigOverrides{CurrentContext: tc.context})
			for _, want := range tc.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %v, want it to say %q", err, want)
				}
			}
		})
	}
}

func TestWhatIsNotAboutAccessKeepsItsOwnWords(t *testing.T) {
	const quota = `pods "x" is forbidden: exceeded quota: q, requested: cpu=1`
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	for name, err := range map[string]error{
		"a quota":         load(t.Context(), kubeconfig(t, refusing(t, 403, metav1.StatusReasonForbidden, quota).URL), clientcmd.ConfigOverrides{}),
		"an interruption": load(interrupted, kubeconfig(t, closed()), clientcmd.ConfigOverrides{}),
		"another error":   access.Explain(errors.New("another")),
	} {
		if err == nil || strings.Contains(err.Error(), "administrator") || strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := access.Explain(nil); err != nil {
		t.Errorf("nothing is explained as %v", err)
	}
}

// TestALoginThatFailsIsNotCalledUnreachable: the program of an exec plugin is not installed; client-go says so.
func TestALoginThatFailsIsNotCalledUnreachable(t *testing.T) {
	path := kubeconfig(t, strings.Replace(closed(), "http:", "https:", 1)) // credentials are sent over TLS only
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		Command: "no-such-login", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	config.Contexts["production"].AuthInfo = "u"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	if err := load(t.Context(), path, clientcmd.ConfigOverrides{}); err == nil || !strings.Contains(err.Error(), "no-such-login") || strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
}

// TestTheKindsOfSupercargoAreSaidToBeInstalledByItsChart asks through the client of the commands, which discovers kinds.
func TestTheKindsOfSupercargoAreSaidToBeInstalledByItsChart(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case "/api":
			answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}
		case "/apis":
			answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	path := kubeconfig(t, server.URL)
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := access.Explain(c.Get(t.Context(), client.ObjectKey{Name: "x"}, &v1alpha1.NodeFleet{})); err == nil || !strings.Contains(err.Error(), "the cluster does not have the kind NodeFleet: install Supercargo's definitions") {
		t.Error(err)
	}
	if err := access.Explain(c.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.Node{})); err == nil || strings.Contains(err.Error(), "chart") {
		t.Error(err)
	}
}
