package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/nodemeter"
	"supercargo.dev/supercargo/energy/nodemeter/meter"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// home is the namespace of the descheduler and the metrics adapter.
const home = "supercargo-system"

// metering is a running node meter with the permissions in its manifests.
type metering struct {
	*testing.T
	site    *kit.Site
	address string
	own     client.Client // with the meter's permissions
	log     *kit.Log
}

// account creates a ServiceAccount, unless it exists.
func (m *metering) account(namespace, name string) {
	m.Helper()
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
	} {
		if err := m.site.Client.Create(m.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			m.Fatal(err)
		}
	}
}

// token returns a token of a ServiceAccount for the audiences; without any, the audience is the API server.
func (m *metering) token(namespace, name string, audiences ...string) string {
	m.Helper()
	t, err := m.site.Playground.Client().CoreV1().ServiceAccounts(namespace).CreateToken(m.Context(), name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		m.Fatal(err)
	}
	return t.Status.Token
}

// newMetering starts a meter that models the power of this machine.
func newMetering(t *testing.T) *metering {
	t.Helper()
	site, err := sites.Get()
	if err != nil {
		t.Fatal(err)
	}
	m := &metering{T: t, site: site, log: &kit.Log{}}
	m.account(meterapi.Namespace, "default")
	m.account(home, "supercargo-descheduler")
	m.account(home, "supercargo-metrics-adapter")
	site.Install(t, "../../../manifests/meter/rbac.yaml")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "metered"}}
	testapi.Create(t, site.Client, node)
	t.Cleanup(func() {
		if err := site.Client.Delete(context.WithoutCancel(t.Context()), node); err != nil {
			t.Error(err)
		}
	})
	config := rest.AnonymousClientConfig(site.Config())
	config.BearerToken = m.token(meterapi.Namespace, meterapi.Name)
	if m.own, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	reads, err := meter.New(meter.Options{Node: node.Name, Root: "/", Kind: meter.Model, Log: m.log.Logger("meter")})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- nodemeter.Run(ctx, nodemeter.Config{
			Client: config, Node: node.Name, Namespace: meterapi.Namespace, Meter: reads, Listener: listener, Log: m.log.Logger("node-meter"),
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the meter: %v", err)
		}
		if t.Failed() {
			t.Log(m.log.Tail(40))
		}
	})
	return m
}

// authorities returns the CAs that clients of the meter trust, read as the account of a client.
func (m *metering) authorities(asked context.Context, namespace, account string) ([]byte, error) {
	config := rest.AnonymousClientConfig(m.site.Config())
	config.BearerToken = m.token(namespace, account)
	as, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	var published corev1.ConfigMap
	err = as.Get(asked, client.ObjectKey{Namespace: meterapi.Namespace, Name: meterapi.Name}, &published)
	return []byte(published.Data[meterapi.AuthoritiesKey]), err
}

// wait waits until the meter serves and has read its counters twice.
func (m *metering) wait() []byte {
	m.Helper()
	var authorities []byte
	testwait.Until(m, time.Minute, "the meter serves what it reads", func() string {
		var err error
		if authorities, err = m.authorities(m.Context(), home, "supercargo-metrics-adapter"); err != nil || len(authorities) == 0 {
			return fmt.Sprintf("no authorities: %v", err)
		}
		code, text, err := m.ask(authorities, "/metrics", m.token(home, "supercargo-metrics-adapter", meterapi.Audience))
		if err != nil || code != http.StatusOK || !strings.Contains(text, "supercargo_node_power_watts{") {
			return fmt.Sprintf("code %d, %v\n%s", code, err, m.log.Tail(40))
		}
		return ""
	})
	return authorities
}

// ask sends a request to the meter with a token, or without one if it is "".
func (m *metering) ask(authorities []byte, path, token string) (int, string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: meterapi.ServerName(meterapi.Namespace), MinVersion: tls.VersionTLS13},
	}}
	request, err := http.NewRequestWithContext(m.Context(), http.MethodGet, "https://"+m.address+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// TestOnlyThoseWhoMayReadWhatANodeDraws: what pods compute can be told from what their node
// draws, so any pod that reaches the port is an attacker.
func TestOnlyThoseWhoMayReadWhatANodeDraws(t *testing.T) {
	m := newMetering(t)
	authorities := m.wait()
	m.account("attack", "attacker")
	stolen := m.token(home, "supercargo-descheduler", "somebody-else.example")
	forged := m.token(home, "supercargo-descheduler", meterapi.Audience)
	forged = forged[:len(forged)-8] + "AAAAAAAA"
	now := time.Now().UTC()
	energy := fmt.Sprintf("%s?from=%s&to=%s", meterapi.Path, now.Add(-2*time.Second).Format(time.RFC3339Nano), now.Add(-time.Second).Format(time.RFC3339Nano))
	for name, tc := range map[string]struct {
		token string
		want  int
	}{
		"nobody":                               {"", http.StatusUnauthorized},
		"a token that is none":                 {"let me in", http.StatusUnauthorized},
		"a token that was changed":             {forged, http.StatusUnauthorized},
		"a token for somebody else":            {stolen, http.StatusUnauthorized},
		"a pod without the right":              {m.token("attack", "attacker"), http.StatusForbidden},
		"a pod that asks for the meter's":      {m.token("attack", "attacker", meterapi.Audience), http.StatusForbidden},
		"the meter itself":                     {m.token(meterapi.Namespace, meterapi.Name), http.StatusForbidden},
		"the descheduler":                      {m.token(home, "supercargo-descheduler", meterapi.Audience), http.StatusOK},
		"one with the API server's, as it has": {m.token(home, "supercargo-metrics-adapter"), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/metrics", energy} {
				code, text, err := m.ask(authorities, path, tc.token)
				if err != nil {
					t.Fatal(err)
				}
				unknown := path == energy && tc.want == http.StatusOK && code == http.StatusNotFound // it may not have data for these seconds yet
				if code != tc.want && !unknown {
					t.Errorf("%s is answered with %d, want %d: %s", path, code, tc.want, text)
				}
				if leaks := strings.Contains(text, "supercargo_node") || strings.Contains(text, "Joules"); leaks && tc.want != http.StatusOK {
					t.Errorf("%s tells what the node draws: %s", path, text)
				}
			}
		})
	}
	if code, _, err := m.ask(authorities, "/readyz", ""); err != nil || code != http.StatusOK {
		t.Errorf("the kubelet's probe is answered with %d, %v", code, err)
	}
	t.Run("by plain HTTP", func(t *testing.T) {
		answer, err := http.Get("http://" + m.address + "/metrics")
		if err != nil {
			return
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("it is answered with %d", answer.StatusCode)
		}
	})
}

// TestATokenIsShownToTheMeterAlone runs another server at the meter's address, as an attacker who takes over
// its port or address can.
func TestATokenIsShownToTheMeterAlone(t *testing.T) {
	m := newMetering(t)
	m.wait()
	var asked []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.Header.Get("Authorization")) }))
	t.Cleanup(server.Close)
	token := testfile.New(t, "token", m.token(home, "supercargo-descheduler", meterapi.Audience))
	secure := &meterapi.Secure{ServerName: meterapi.ServerName(meterapi.Namespace), TokenFile: token, Authorities: func(ctx context.Context) ([]byte, error) {
		return m.authorities(ctx, home, "supercargo-descheduler")
	}}
	to := time.Now()
	if _, _, err := (meterapi.Client{URL: server.URL, HTTP: secure.Client()}).Usage(t.Context(), to.Add(-time.Second), to); err == nil || len(asked) > 0 {
		t.Errorf("another server was asked with %q, error %v", asked, err)
	}
	if _, _, err := (meterapi.Client{URL: "http://" + m.address, HTTP: secure.Client()}).Usage(t.Context(), to.Add(-time.Second), to); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("by plain HTTP it was asked with error %v", err)
	}
	if _, _, err := (meterapi.Client{URL: "https://" + m.address, HTTP: secure.Client()}).Usage(t.Context(), to.Add(-time.Second), to); err != nil {
		t.Errorf("the meter itself was asked with error %v", err)
	}
}

// TestAMeterCannotGetTheTokensOfOthers uses all write permissions of the meter's account, which is on every
// node.
func TestAMeterCannotGetTheTokensOfOthers(t *testing.T) {
	m := newMetering(t)
	m.wait()
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: meterapi.Namespace, Name: "stolen", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	if err := m.own.Create(t.Context(), token); !apierrors.IsForbidden(err) {
		t.Errorf("a Secret for another account's token: %v", err)
	}
	var secret corev1.Secret
	testapi.Get(t, m.own, client.ObjectKey{Namespace: meterapi.Namespace, Name: meterapi.Name}, &secret)
	if key := secret.Data[corev1.TLSPrivateKeyKey]; !bytes.Contains(key, []byte("PRIVATE KEY")) {
		t.Errorf("the Secret has no key: %q", key)
	}
	secret.Type = corev1.SecretTypeServiceAccountToken
	if err := m.own.Update(t.Context(), &secret); err == nil {
		t.Error("the Secret of the certificate was made one for a token")
	}
	for what, object := range map[string]client.Object{
		"Secrets elsewhere": &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "any"}},
		"roles":             &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
		"pods":              &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	} {
		if err := m.own.Create(t.Context(), object); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
