package dashboard

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/platform/guard"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// office is a server whose users log in, with what its API server would know.
type office struct {
	*testing.T
	server *Server
	clock  *clocktesting.FakeClock
	url    string
	client *http.Client

	mu     sync.Mutex
	users  map[string]string // by token
	denied map[string]bool   // users without the permission
	down   bool
	logged strings.Builder
}

func (o *office) admit(_ context.Context, token string) (string, *guard.Refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	user, known := o.users[token]
	switch {
	case o.down:
		return "", &guard.Refusal{Code: http.StatusServiceUnavailable, Message: "the API server does not answer"}
	case !known:
		return "", &guard.Refusal{Code: http.StatusUnauthorized, Message: "the token is unknown"}
	case o.denied[user]:
		return user, &guard.Refusal{Code: http.StatusForbidden, Message: "user may not get /dashboard"}
	}
	return user, nil
}

// set changes what the API server knows.
func (o *office) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// log returns what was logged.
func (o *office) log() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logged.String()
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{T: t, clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), denied: map[string]bool{"other": true},
		users: map[string]string{"t0ken-of-ann": "ann", "t0ken-of-bob": "bob", "t0ken-of-other": "other"}}
	done := make(chan struct{})
	o.server = NewServer(ServerOptions{Admit: o.admit, Clock: o.clock, Done: done, Log: funcr.New(func(prefix, args string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.logged.WriteString(prefix + args + "\n")
	}, funcr.Options{Verbosity: 9})})
	h := httptest.NewTLSServer(o.server.Handler())
	o.url, o.client = h.URL, h.Client()
	o.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		close(done)
		h.Close()
	})
	return o
}

// send sends a request and returns the response.
func (o *office) send(method, path, body string, change ...func(*http.Request)) *http.Response {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), long)
	o.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, o.url+path, strings.NewReader(body))
	if err != nil {
		o.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(r)
	}
	answer, err := o.client.Do(r)
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { answer.Body.Close() })
	return answer
}

// text returns the body of a response.
func (o *office) text(answer *http.Response) string {
	o.Helper()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		o.Fatal(err)
	}
	return string(text)
}

func form(token string) string { return url.Values{"token": {token}}.Encode() }

func with(header, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(header, value) }
}

func bearer(token string) func(*http.Request) { return with("Authorization", "Bearer "+token) }

// logIn logs in, and returns how later requests show it.
func (o *office) logIn(token string) func(*http.Request) {
	o.Helper()
	answer := o.send(http.MethodPost, "/login", form(token))
	if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
		o.Fatalf("the login is answered with %d and cookies %v", answer.StatusCode, answer.Cookies())
	}
	cookie := answer.Cookies()[0]
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value}) }
}

// sees reports the status with which a path is answered.
func (o *office) sees(path string, change ...func(*http.Request)) int {
	o.Helper()
	return o.send(http.MethodGet, path, "", change...).StatusCode
}

func TestOnlyUsersWithThePermissionSeeThePage(t *testing.T) {
	o := newOffice(t)
	forged := func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: "AAAAAAAAAAAAAAAAAAAAAAAAAA"})
	}
	none := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: sessionCookie, Value: ""}) }
	raw := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: sessionCookie, Value: "t0ken-of-ann"}) }
	for _, tc := range []struct {
		name   string
		path   string
		change []func(*http.Request)
		want   int
	}{
		{"a user who has logged in", "/", []func(*http.Request){o.logIn("t0ken-of-ann")}, http.StatusOK},
		{"their script", "/main.js", []func(*http.Request){o.logIn("t0ken-of-ann")}, http.StatusOK},
		{"a proxy with the user's token", "/", []func(*http.Request){bearer("t0ken-of-ann")}, http.StatusOK},
		{"nobody", "/", nil, http.StatusSeeOther},
		{"nobody who asks for the stream", "/events", nil, http.StatusUnauthorized},
		{"nobody who asks for a script", "/main.js", nil, http.StatusUnauthorized},
		{"nobody who asks for the index by name", "/index.html", nil, http.StatusUnauthorized},
		{"a path that is cleaned", "//events", nil, http.StatusTemporaryRedirect},
		{"a style of the form", "/style.css", nil, http.StatusOK},
		{"an unknown token", "/", []func(*http.Request){bearer("guess")}, http.StatusUnauthorized},
		{"an empty token", "/events", []func(*http.Request){bearer("")}, http.StatusUnauthorized},
		{"a user without the permission", "/", []func(*http.Request){bearer("t0ken-of-other")}, http.StatusForbidden},
		{"a user without the permission who asks for the stream", "/events", []func(*http.Request){bearer("t0ken-of-other")}, http.StatusForbidden},
		{"a session that does not exist", "/events", []func(*http.Request){forged}, http.StatusUnauthorized},
		{"an empty session", "/events", []func(*http.Request){none}, http.StatusUnauthorized},
		{"a token as the cookie", "/events", []func(*http.Request){raw}, http.StatusUnauthorized},
		{"a token in the URL", "/events?token=t0ken-of-ann", nil, http.StatusUnauthorized},
		{"a user whom the API server's proxy names", "/events", []func(*http.Request){with("X-Remote-User", "ann")}, http.StatusUnauthorized},
		{"a name that was rebound to this address", "/", []func(*http.Request){bearer("t0ken-of-ann"), as("evil.example")}, http.StatusMisdirectedRequest},
		{"a probe", "/healthz", nil, http.StatusOK},
		{"a probe before there is a page", "/readyz", nil, http.StatusServiceUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := o.sees(tc.path, tc.change...); got != tc.want {
				t.Errorf("status %d, want %d", got, tc.want)
			}
		})
	}
}

func TestALoginIsRefusedUnlessItsTokenIsAdmitted(t *testing.T) {
	o := newOffice(t)
	for _, tc := range []struct {
		name, path, body string
		change           []func(*http.Request)
		want             int
	}{
		{"no token", "/login", "", nil, http.StatusBadRequest},
		{"spaces", "/login", form("  "), nil, http.StatusBadRequest},
		{"an unknown token", "/login", form("guess"), nil, http.StatusUnauthorized},
		{"a user without the permission", "/login", form("t0ken-of-other"), nil, http.StatusForbidden},
		{"a token in the URL", "/login?" + form("t0ken-of-ann"), "", nil, http.StatusBadRequest},
		{"a large form", "/login", form(strings.Repeat("x", mostForm)), nil, http.StatusRequestEntityTooLarge},
		{"a form of another site", "/login", form("t0ken-of-ann"), []func(*http.Request){with("Sec-Fetch-Site", "cross-site")}, http.StatusForbidden},
		{"a form of another site in an old browser", "/login", form("t0ken-of-ann"), []func(*http.Request){with("Origin", "https://evil.example")}, http.StatusForbidden},
		{"under a name that was rebound", "/login", form("t0ken-of-ann"), []func(*http.Request){as("evil.example")}, http.StatusMisdirectedRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := o.send(http.MethodPost, tc.path, tc.body, tc.change...)
			if answer.StatusCode != tc.want || len(answer.Cookies()) > 0 {
				t.Errorf("status %d, want %d; cookies %v, want none", answer.StatusCode, tc.want, answer.Cookies())
			}
		})
	}
	o.set(func() { o.down = true })
	if got := o.send(http.MethodPost, "/login", form("t0ken-of-ann")).StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("while the API server is down: status %d, want 503", got)
	}
}

func TestTheCookieHasASecretOfItsOwnThatOnlyThisServerGets(t *testing.T) {
	o := newOffice(t)
	first := o.send(http.MethodPost, "/login", form(" t0ken-of-ann\n"))
	second := o.send(http.MethodPost, "/login", form("t0ken-of-ann"))
	if to := first.Header.Get("Location"); to != "/" {
		t.Errorf("the browser goes to %q, want /", to)
	}
	c := first.Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") || c.MaxAge != 3600 {
		t.Errorf("the cookie is %v", c)
	}
	if strings.Contains(c.Value, "t0ken") || len(c.Value) < 26 || c.Value == second.Cookies()[0].Value {
		t.Errorf("the cookie has %q, then %q, want new secrets", c.Value, second.Cookies()[0].Value)
	}
}

// TestAnotherSiteCannotUseTheCookie sends what a browser would send if it ignored SameSite.
func TestAnotherSiteCannotUseTheCookie(t *testing.T) {
	o := newOffice(t)
	ann := o.logIn("t0ken-of-ann")
	for _, site := range []string{"cross-site", "same-site"} {
		if got := o.sees("/events", ann, with("Sec-Fetch-Site", site)); got != http.StatusForbidden {
			t.Errorf("the stream for a %s page: status %d, want 403", site, got)
		}
		if got := o.send(http.MethodPost, "/logout", "", ann, with("Sec-Fetch-Site", site)).StatusCode; got != http.StatusForbidden {
			t.Errorf("a logout by a %s page: status %d, want 403", site, got)
		}
	}
	answer := o.send(http.MethodGet, "/", "", ann, with("Origin", "https://evil.example"))
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Access-Control-Allow-Origin") != "" || answer.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
		t.Errorf("status %d; other origins may read it: %v", answer.StatusCode, answer.Header)
	}
}

// open opens the stream and reads the first update.
func (o *office) open(change ...func(*http.Request)) *bufio.Reader {
	o.Helper()
	o.server.Show(items("a=1"))
	answer := o.send(http.MethodGet, "/events", "", change...)
	if answer.StatusCode != http.StatusOK {
		o.Fatalf("the stream is answered with %d", answer.StatusCode)
	}
	in := bufio.NewReader(answer.Body)
	messages(o.T, in)
	return in
}

// ends fails unless a stream ends when its credential is reviewed again.
func (o *office) ends(in *bufio.Reader) {
	o.Helper()
	testwait.For(o, long, "something waits for the next review", o.clock.HasWaiters)
	o.clock.Step(reviewEvery)
	if _, err := io.ReadAll(in); err != nil {
		o.Errorf("the stream has not ended: %v", err)
	}
}

func TestAnOpenPageEndsWhenItsUserIsNoLongerAdmitted(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(o *office)
		want   int // of a later request
	}{
		{"the token is revoked", func(o *office) { delete(o.users, "t0ken-of-ann") }, http.StatusUnauthorized},
		{"the permission is removed", func(o *office) { o.denied["ann"] = true }, http.StatusForbidden},
		{"the API server does not answer", func(o *office) { o.down = true }, http.StatusServiceUnavailable},
	} {
		t.Run(tc.name+", with the token in each request", func(t *testing.T) {
			o := newOffice(t)
			proxy := bearer("t0ken-of-ann")
			page := o.open(proxy)
			o.set(func() { tc.change(o) })
			o.ends(page)
			if got := o.sees("/events", proxy); got != tc.want {
				t.Errorf("status %d, want %d", got, tc.want)
			}
		})
		t.Run(tc.name+", with a session", func(t *testing.T) {
			o := newOffice(t)
			ann := o.logIn("t0ken-of-ann")
			page := o.open(ann)
			o.set(func() { tc.change(o) })
			o.ends(page)
			o.set(func() { o.down, o.denied, o.users["t0ken-of-ann"] = false, nil, "ann" })
			want := http.StatusUnauthorized // the session has ended too
			if tc.want == http.StatusServiceUnavailable {
				want = http.StatusOK
			}
			if got := o.sees("/main.js", ann); got != want {
				t.Errorf("afterwards: status %d, want %d", got, want)
			}
		})
	}
}

func TestASessionEnds(t *testing.T) {
	o := newOffice(t)
	ann, bob := o.logIn("t0ken-of-ann"), o.logIn("t0ken-of-bob")
	out := o.send(http.MethodPost, "/logout", "", ann)
	if out.StatusCode != http.StatusSeeOther || out.Header.Get("Location") != "/login" || out.Cookies()[0].MaxAge >= 0 {
		t.Errorf("the logout is answered with %d %v", out.StatusCode, out.Header)
	}
	if got := o.sees("/events", ann); got != http.StatusUnauthorized {
		t.Errorf("after the logout: status %d, want 401", got)
	}
	o.clock.Step(sessionLasts - time.Second)
	if got := o.sees("/main.js", bob); got != http.StatusOK {
		t.Errorf("within its time: status %d, want 200", got)
	}
	o.clock.Step(time.Second)
	if got := o.sees("/main.js", bob); got != http.StatusUnauthorized {
		t.Errorf("after its time: status %d, want 401", got)
	}
}

func TestSessionsAreLimited(t *testing.T) {
	o := newOffice(t)
	first := o.logIn("t0ken-of-ann")
	o.clock.Step(time.Second)
	second := o.logIn("t0ken-of-ann")
	for range mostOfUser - 1 {
		o.logIn("t0ken-of-ann")
	}
	if got := o.sees("/main.js", first); got != http.StatusUnauthorized {
		t.Errorf("the oldest of a user's sessions: status %d, want 401", got)
	}
	if got := o.sees("/main.js", second); got != http.StatusOK {
		t.Errorf("the next: status %d, want 200", got)
	}
	now := o.clock.Now()
	for i := range mostSessions {
		o.server.desk.sessions.start(strings.Repeat("u", i+1), "t", now)
	}
	if got := o.send(http.MethodPost, "/login", form("t0ken-of-bob")).StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("one session too many: status %d, want 503", got)
	}
	o.clock.Step(sessionLasts)
	o.logIn("t0ken-of-bob")
	if got := len(o.server.desk.sessions.all); got != 1 {
		t.Errorf("%d sessions are kept after their time, want the new one", got)
	}
}

func TestTokensAndSessionsAreNeitherLoggedNorSent(t *testing.T) {
	o := newOffice(t)
	answers := o.text(o.send(http.MethodPost, "/login", form("t0ken-guessed"))) + o.text(o.send(http.MethodPost, "/login", form("t0ken-of-other"))) +
		o.text(o.send(http.MethodGet, "/", "", bearer("t0ken-of-other"))) + o.text(o.send(http.MethodGet, "/events?token=t0ken-of-ann", ""))
	login := o.send(http.MethodPost, "/login", form("t0ken-of-ann"))
	cookie := login.Cookies()[0]
	ann := func(r *http.Request) { r.AddCookie(cookie) }
	answers += o.text(o.send(http.MethodGet, "/", "", ann))
	o.set(func() { delete(o.users, "t0ken-of-ann") })
	answers += o.text(o.send(http.MethodGet, "/events", "", ann))
	logged := o.log()
	for _, secret := range []string{"t0ken", cookie.Value} {
		if strings.Contains(logged, secret) {
			t.Errorf("%q was logged:\n%s", secret, logged)
		}
		if strings.Contains(answers, secret) {
			t.Errorf("%q was sent:\n%s", secret, answers)
		}
	}
	for _, want := range []string{`"Logged in" "user"="ann"`, `"Refused a login" "user"="other"`, `"Ended a session`} {
		if !strings.Contains(logged, want) {
			t.Errorf("%s is not logged:\n%s", want, logged)
		}
	}
}

func TestThePageHasAFormOnlyForUsersWhoLogIn(t *testing.T) {
	o := newOffice(t)
	answer := o.send(http.MethodGet, "/", "", o.logIn("t0ken-of-ann"))
	if !strings.Contains(o.text(answer), `action="/logout"`) || answer.Header.Get("Content-Security-Policy") != policyOfDesk {
		t.Errorf("nobody can log out; the policy is %q", answer.Header.Get("Content-Security-Policy"))
	}
	message := o.send(http.MethodPost, "/login", form("<script>"))
	if text := o.text(message); !strings.Contains(text, "the token is unknown") || strings.Contains(text, "<script>") {
		t.Errorf("the form says\n%s", text)
	}
	s, h := serve(t)
	text, err := io.ReadAll(ask(t, s, h.URL+"/").Body)
	if err != nil || strings.Contains(string(text), "logout") || !strings.Contains(string(text), "<title>Supercargo</title>") {
		t.Errorf("the page of a kubeconfig is %v\n%s", err, text)
	}
	if got := ask(t, s, h.URL+"/login").StatusCode; got != http.StatusNotFound {
		t.Errorf("it answers /login with %d, want 404", got)
	}
}

// TestAScriptSeesWhenThePageHasItsFirstData asks without the token.
func TestAScriptSeesWhenThePageHasItsFirstData(t *testing.T) {
	s, h := serve(t)
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if got := ask(t, s, h.URL+path, stranger).StatusCode; got != want {
				t.Errorf("%s: status %d, want %d", path, got, want)
			}
		}
		s.Show([]status.Item{{Section: "nodes", Key: "n", JSON: []byte("1")}})
	}
}
