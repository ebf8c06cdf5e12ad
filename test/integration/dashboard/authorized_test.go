package dashboard

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/cli/dashboard"
	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testwait"
)

const (
	home  = "supercargo-system"
	board = "supercargo-dashboard"
	// revoked is the time within which a page loses its user: a cached review, and the next of an open page.
	revoked = 90*time.Second + long/2
)

// deployed is a dashboard with the account and the permissions of its manifests.
type deployed struct {
	*testing.T
	playground *playground.Playground
	admin      client.WithWatch
	log        *kit.Log
	address    string
	client     *http.Client
}

// create creates objects.
func (d *deployed) create(objects ...client.Object) {
	d.Helper()
	for _, o := range objects {
		testapi.Create(d, d.admin, o)
	}
}

// account creates a ServiceAccount in the namespace default.
func (d *deployed) account(name string) {
	d.Helper()
	d.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
}

// token returns a token of a ServiceAccount; without audiences, for the API server.
func (d *deployed) token(namespace, name string, audiences ...string) string {
	d.Helper()
	t, err := d.playground.Client().CoreV1().ServiceAccounts(namespace).CreateToken(d.Context(), name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		d.Fatal(err)
	}
	return t.Status.Token
}

// eventually waits until is returns true.
func (d *deployed) eventually(what string, within time.Duration, is func() bool) {
	d.Helper()
	testwait.For(d, within, what, is)
}

// deploy starts a dashboard with the permissions of its manifests, and waits until it is ready. ServiceAccount
// default/reader may see the page.
func deploy(t *testing.T) *deployed {
	t.Helper()
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(2), NoScheduler: true, NoKwok: true, NoControllerManager: true})
	if err := p.InstallCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := &deployed{T: t, playground: p, admin: clientOf(t, p.Config()), log: &kit.Log{}}
	d.create(kit.Namespace(home))
	d.create(kit.Objects(t, "../../../manifests/dashboard/server/rbac.yaml")...)
	d.account("reader")
	d.account("attacker")
	d.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "supercargo-dashboard-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}},
	})
	d.eventually("the API server grants the roles", long, func() bool {
		return d.may("system:serviceaccount:default:reader", authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: dashboard.Path}}) &&
			d.may("system:serviceaccount:"+home+":"+board, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"}})
	})
	d.start()
	return d
}

// may reports whether a user has a permission.
func (d *deployed) may(user string, spec authorizationv1.SubjectAccessReviewSpec) bool {
	d.Helper()
	spec.User = user
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	d.create(review)
	return review.Status.Allowed
}

// start starts the dashboard until the test ends.
func (d *deployed) start() {
	d.Helper()
	config := rest.AnonymousClientConfig(d.playground.Config())
	config.BearerToken = d.token(home, board)
	listener, err := (&net.ListenConfig{}).Listen(d.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		d.Fatal(err)
	}
	d.address = "https://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- dashboard.Serve(ctx, dashboard.ServeOptions{
			Options: dashboard.Options{Link: linkTo(d.T, config), AuditInterval: time.Second, Cycle: 5 * time.Minute},
			Config:  config, Listener: listener, Hosts: []string{board + "." + home + ".svc"},
			Certificate: types.NamespacedName{Namespace: home, Name: board}, Log: d.log.Logger("dashboard"),
		})
	}()
	d.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			d.Errorf("the dashboard: %v", err)
		}
		if d.Failed() {
			d.Log(d.log.Tail(40))
		}
	})
	var authorities corev1.ConfigMap
	d.eventually("the authorities are published", long, func() bool {
		err := d.admin.Get(d.Context(), client.ObjectKey{Namespace: home, Name: board}, &authorities)
		return err == nil && authorities.Data["ca.crt"] != ""
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authorities.Data["ca.crt"]))
	d.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: board + "." + home + ".svc", MinVersion: tls.VersionTLS13}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	d.Cleanup(d.client.CloseIdleConnections)
	d.eventually("the dashboard is ready", long, func() bool {
		answer, err := d.client.Get(d.address + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// ask sends a request with a token, unless it is empty, and cookies.
func (d *deployed) ask(path, token string, cookies ...*http.Cookie) *http.Response {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.address+path, http.NoBody)
	if err != nil {
		d.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	answer, err := d.client.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { answer.Body.Close() })
	return answer
}

// logIn enters a token in the form.
func (d *deployed) logIn(token string) *http.Response {
	d.Helper()
	answer, err := d.client.PostForm(d.address+"/login", url.Values{"token": {token}})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { answer.Body.Close() })
	return answer
}

func TestOnlyAccountsWithThePermissionSeeTheDashboardOfACluster(t *testing.T) {
	d := deploy(t)
	forged := d.token("default", "reader")
	forged = forged[:len(forged)-8] + "AAAAAAAA"
	for name, tc := range map[string]struct {
		token string
		want  int // for a request with the token; logins answer 303 instead of 200
	}{
		"a token that is none":              {"let me in", http.StatusUnauthorized},
		"a token that was changed":          {forged, http.StatusUnauthorized},
		"a token for somebody else":         {d.token("default", "reader", "somebody-else.example"), http.StatusUnauthorized},
		"an account without the permission": {d.token("default", "attacker"), http.StatusForbidden},
		"such an account with its audience": {d.token("default", "attacker", dashboard.Audience), http.StatusForbidden},
		"the dashboard itself":              {d.token(home, board), http.StatusForbidden},
		"an account with the permission":    {d.token("default", "reader"), http.StatusOK},
		"its token that is valid here only": {d.token("default", "reader", dashboard.Audience), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/main.js", "/"} {
				if got := d.ask(path, tc.token).StatusCode; got != tc.want {
					t.Errorf("%s is answered with %d, want %d", path, got, tc.want)
				}
			}
			login := d.logIn(tc.token)
			want := tc.want
			if want == http.StatusOK {
				want = http.StatusSeeOther
			}
			if login.StatusCode != want || (len(login.Cookies()) == 1) != (want == http.StatusSeeOther) {
				t.Errorf("the login is answered with %d and cookies %v, want %d", login.StatusCode, login.Cookies(), want)
			}
		})
	}
	for path, want := range map[string]int{"/": http.StatusSeeOther, "/events": http.StatusUnauthorized, "/main.js": http.StatusUnauthorized, "/login": http.StatusOK} {
		if got := d.ask(path, "").StatusCode; got != want {
			t.Errorf("nobody asks for %s: %d, want %d", path, got, want)
		}
	}
	if text := d.log.String(); strings.Contains(text, strings.Split(forged, ".")[1]) {
		t.Errorf("a token was logged:\n%s", text)
	}
}

// TestTheDashboardsAccountReadsAllThatThePageShowsAndNoSecrets logs in, and revokes the user's token while its
// page is open.
func TestTheDashboardsAccountReadsAllThatThePageShowsAndNoSecrets(t *testing.T) {
	d := deploy(t)
	start := time.Now()
	login := d.logIn(d.token("default", "reader", dashboard.Audience))
	if len(login.Cookies()) != 1 {
		t.Fatalf("the login is answered with %d", login.StatusCode)
	}
	cookie := login.Cookies()[0]
	answer := d.ask("/events", "", cookie)
	r := &reader{in: bufio.NewReader(answer.Body), items: map[string]json.RawMessage{}}
	r.until(t, "two nodes are shown, and an audit", func() bool {
		s := read[status.Summary](t, r, "summary/")
		return s.Nodes == 2 && s.Audit != nil
	})
	s := read[status.Summary](t, r, "summary/")
	for _, note := range append(read[connection.Status](t, r, "connection/").Notes, s.Audit.Notes...) {
		if strings.Contains(note, "allowed") || strings.Contains(note, "permission") || strings.Contains(note, "forbidden") {
			t.Errorf("the account lacks a permission: %s", note)
		}
	}
	if strings.Contains(s.Audit.Error, "forbidden") {
		t.Errorf("the audit lacks a permission: %s", s.Audit.Error)
	}
	for _, resource := range []string{"secrets", "configmaps", "serviceaccounts"} {
		asked := authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: resource}}
		if d.may("system:serviceaccount:"+home+":"+board, asked) {
			t.Errorf("the account may list %s", resource)
		}
	}

	testapi.Delete(t, d.admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reader"}})
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r.in)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the stream of a user whose token is revoked: %v", err)
		}
		if lasted := time.Since(start); lasted < 45*time.Second { // the first review is valid for a minute
			t.Errorf("the stream ended after %v, want that it outlasts the server's timeouts for requests", lasted)
		}
	case <-time.After(revoked):
		t.Errorf("%v after its token was revoked, a user still sees the page", revoked)
	}
	if got := d.ask("/main.js", "", cookie).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("the cookie of that user is answered with %d, want 401", got)
	}
}
