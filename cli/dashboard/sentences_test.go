package dashboard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachSentenceOfTheServerIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of the package. Those of the page are in
// packages status and connection, and in the page's own tests.
func TestEachSentenceOfTheServerIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	all := append(toHoldersOfTheToken(t), append(toUsersWhoLogIn(t), aboutWhatIsRead(t)...)...)
	exempt := map[string]string{
		"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; ": "a header",
		"base-uri 'none'; frame-ancestors 'none'; ":                                                     "a header",
		"form-action 'none'": "a header", "form-action 'self'": "a header", "text/html; charset=utf-8": "a header",
		"event: reset\ndata: {}\n\n": "a message of the protocol", "event: items\ndata: [": "a message of the protocol",
		"event: beat\ndata: {\"at\":%d}\n\n": "a message of the protocol", "event: commit\nid: %s-%d\ndata: {\"at\":%d}\n\n": "a message of the protocol",
		"set the read deadline: %v": "an error of the connection",
	}
	for _, pattern := range []string{"GET /login", "POST /login", "POST /logout", "GET /healthz", "GET /readyz"} {
		exempt[pattern] = "a pattern of requests"
	}
	sentences.Check(t, []string{"*.go"}, all, exempt)
}

// bodyOf returns the body of a response.
func bodyOf(t *testing.T, answer *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func toHoldersOfTheToken(t *testing.T) []sentences.Case {
	s, h := serve(t, "board.example")
	says := func(path string, change ...func(*http.Request)) string {
		t.Helper()
		return bodyOf(t, ask(t, s, h.URL+path, change...))
	}
	early := says("/readyz", stranger)
	s.Show(items("a=1"))
	for range mostStreams - 1 {
		messages(t, bufio.NewReader(ask(t, s, h.URL+"/events").Body))
	}
	last := ask(t, s, h.URL+"/events")
	first, err := bufio.NewReader(last.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return []sentences.Case{
		{"the cluster has not been read yet", early, says("/readyz", stranger)},
		{"too many pages are open", says("/events"), first},
		{"this host name is not accepted: use an IP address or localhost, or add the name with --accept-host of `supercargo dashboard`", says("/", as("evil.example")), says("/", as("board.example"))},
		{"open the address that the program has printed, with its token", says("/", stranger), says("/?token=t0ke", stranger)},
		{"the token is invalid: open the address that the program has printed", says("/?token=t0ke", stranger), says("/?token=t0ken", stranger)},
	}
}

// broken is a connection that has been closed.
type broken struct{ http.ResponseWriter }

func (broken) Header() http.Header       { return http.Header{} }
func (broken) WriteHeader(int)           {}
func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func toUsersWhoLogIn(t *testing.T) []sentences.Case {
	o := newOffice(t)
	posted := func(body string) string { return o.text(o.send(http.MethodPost, "/login", body)) }
	got := func(path string, change ...func(*http.Request)) string {
		return o.text(o.send(http.MethodGet, path, "", change...))
	}
	// logged returns what is logged while something happens.
	logged := func(happens func()) string {
		before := o.log()
		happens()
		return strings.TrimPrefix(o.log(), before)
	}
	ann := o.logIn("t0ken-of-ann")
	good, bad := logged(func() { posted(form("t0ken-of-ann")) }), logged(func() { posted(form("guess")) })
	script := got("/main.js", ann)
	crossSite := got("/events", ann, with("Sec-Fetch-Site", "cross-site"))
	proxied := got("/events", bearer("guess"), with("Sec-Fetch-Site", "cross-site")) // it has no cookie that another site could use
	kept := logged(func() {
		o.set(func() { o.down = true }) // nobody knows whether the token is valid
		got("/main.js", ann)
		o.set(func() { o.down = false })
	})
	ended := logged(func() {
		o.set(func() { delete(o.users, "t0ken-of-ann") })
		got("/main.js", ann)
	})
	o.set(func() { o.users["t0ken-of-ann"] = "ann" })
	again := got("/main.js", ann)
	for i := range mostSessions {
		o.server.desk.sessions.start(strings.Repeat("u", i+1), "t", o.clock.Now())
	}
	full := posted(form("t0ken-of-bob"))
	o.clock.Step(sessionLasts)
	free := posted(form("t0ken-of-bob"))
	large := posted(form(strings.Repeat("x", mostForm)))
	unsent := logged(func() { o.server.desk.showForm(broken{}, http.StatusOK, "") })
	unsentPage := logged(func() { o.server.index(broken{}, nil) })
	return []sentences.Case{
		{"only the page may open the stream", crossSite, proxied},
		{"log in first: you have not, or your session is over", again, script},
		{"the form is too large: enter one token", large, posted("%zz")},
		{"the form cannot be read: enter one token", posted("%zz"), large},
		{"enter a token", posted(form(" ")), posted(form("guess"))},
		{"too many users are logged in: try again later", full, free},
		{"Ended a session, because its token is no longer admitted", ended, kept},
		{"Refused a login", bad, good},
		{"Logged in", good, bad},
		{"Failed to send the form", unsent, bad},
		{"Failed to send the page", unsentPage, unsent},
	}
}

// aboutWhatIsRead has what the page lacks without a permission, and what is said of an error and of the connection.
func aboutWhatIsRead(t *testing.T) []sentences.Case {
	t.Helper()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	// without returns what is said if one kind may not be read.
	without := func(name string) string {
		t.Helper()
		o := &connection.Observation{Now: now, Answered: now}
		for _, f := range newSource(&Link{}).all() {
			f.listed(now, nil)
			f.watched(now, nil)
			if f.about.Name == name {
				f.listed(now, forbidden)
			}
			kind := f.observe()
			kind.Read = kind.Name != name
			o.Kinds = append(o.Kinds, kind)
		}
		text, err := json.Marshal(connection.Of(o))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var log strings.Builder
	report := reportTo(funcr.New(func(_, args string) { log.WriteString(args) }, funcr.Options{}))
	report(connection.Status{State: connection.Live, Label: "live since " + connection.Since, Since: now.UnixMilli()})
	if !strings.Contains(log.String(), "live since 2026-11-29T12:00:00Z") {
		t.Errorf("the log is %s, want the time of the figures", log.String())
	}
	cases := []sentences.Case{
		{"the API server ", inWords(fmt.Errorf("list Nodes: %w", syscall.ECONNREFUSED)), inWords(errors.New("no node had a known price"))},
		{"The connection to the API server: ", log.String(), ""},
	}
	for name, gives := range map[string]string{
		"NodeFleets": "NodeFleets and their decisions", "ReplicaPolicies": "ReplicaPolicies and their decisions", "WorkerPools": "WorkerPools and their decisions",
		"MachineProfiles": "the power that MachineProfiles state", "Events": "Events of the autoscaler and the descheduler",
	} {
		cases = append(cases, sentences.Case{gives, without(name), without("Migrations")})
	}
	return cases
}
