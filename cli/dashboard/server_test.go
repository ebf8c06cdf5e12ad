package dashboard

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cli/status"
)

// long is how long a test waits for something that should be immediate.
const long = 20 * time.Second

// serve starts a server with the token t0ken, and ends its streams with the test.
func serve(t *testing.T, hosts ...string) (*Server, *httptest.Server) {
	t.Helper()
	done := make(chan struct{})
	s := NewServer(ServerOptions{Token: "t0ken", Hosts: hosts, Done: done})
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		close(done)
		h.Close()
	})
	return s, h
}

// ask sends an authorised request, after applying changes to it.
func ask(t *testing.T, s *Server, url string, change ...func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: s.cookie(), Value: s.options.Token})
	for _, c := range change {
		c(r)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

func as(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }

func stranger(r *http.Request) { r.Header.Del("Cookie") }

func TestOnlyWhoHasTheTokenSeesThePageAndOnlyUnderItsOwnNames(t *testing.T) {
	s, h := serve(t, "board.example")
	tests := []struct {
		name   string
		path   string
		change []func(*http.Request)
		want   int
	}{
		{"who has the cookie", "/", nil, http.StatusOK},
		{"a script", "/main.js", nil, http.StatusOK},
		{"what is not there", "/hub.go", nil, http.StatusNotFound},
		{"a stranger", "/", []func(*http.Request){stranger}, http.StatusUnauthorized},
		{"a stranger who asks for the stream", "/events", []func(*http.Request){stranger}, http.StatusUnauthorized},
		{"a stranger with the token", "/?token=t0ken", []func(*http.Request){stranger}, http.StatusSeeOther},
		{"a stranger with another token", "/?token=t0ke", []func(*http.Request){stranger}, http.StatusUnauthorized},
		{"a stranger with an empty token", "/?token=", []func(*http.Request){stranger}, http.StatusUnauthorized},
		{"the cookie of another dashboard", "/", []func(*http.Request){stranger, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: s.cookie(), Value: "other"}) }}, http.StatusUnauthorized},
		{"localhost at the port of a tunnel", "/", []func(*http.Request){as("localhost:9999")}, http.StatusOK},
		{"an address of IPv6", "/", []func(*http.Request){as("[::1]:80")}, http.StatusOK},
		{"a name that was allowed", "/", []func(*http.Request){as("Board.example:80")}, http.StatusOK},
		{"a name that was rebound to this address", "/", []func(*http.Request){as("evil.example")}, http.StatusMisdirectedRequest},
		{"the token under such a name", "/?token=t0ken", []func(*http.Request){stranger, as("evil.example")}, http.StatusMisdirectedRequest},
		{"a name that begins like an allowed one", "/", []func(*http.Request){as("localhost.evil.example")}, http.StatusMisdirectedRequest},
		{"no name", "/", []func(*http.Request){as(":80")}, http.StatusMisdirectedRequest},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := ask(t, s, h.URL+tc.path, tc.change...).StatusCode; got != tc.want {
				t.Errorf("status %d, want %d", got, tc.want)
			}
		})
	}
}

func TestNothingCanBeWritten(t *testing.T) {
	s, h := serve(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{"/", "/events"} {
			answer := ask(t, s, h.URL+path, func(r *http.Request) { r.Method = method })
			if answer.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d, want that it is not allowed", method, path, answer.StatusCode)
			}
		}
	}
}

func TestTheTokenLeavesTheAddressAndBecomesACookie(t *testing.T) {
	s, h := serve(t)
	answer := ask(t, s, h.URL+"/?token=t0ken", stranger)
	if to := answer.Header.Get("Location"); to != "/" {
		t.Errorf("the browser goes to %q, want /", to)
	}
	cookies := answer.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("cookies are %v, want one that scripts and other sites cannot use", cookies)
	}
	again := ask(t, s, h.URL+"/", stranger, func(r *http.Request) { r.AddCookie(cookies[0]) })
	if again.StatusCode != http.StatusOK {
		t.Errorf("status with the cookie is %d, want 200", again.StatusCode)
	}
}

func TestEveryAnswerKeepsOthersOut(t *testing.T) {
	s, h := serve(t)
	for _, path := range []string{"/", "/main.js", "/?token=wrong", "/events"} {
		answer := ask(t, s, h.URL+path)
		for header, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := answer.Header.Get(header); got != want {
				t.Errorf("%s: header %s is %q, want %q", path, header, got, want)
			}
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("the policy %q lets in more than the page's own", policy)
	}
}

// message is an event of the stream.
type message struct{ event, id, data string }

// messages reads a stream up to and including the next commit.
func messages(t *testing.T, r *bufio.Reader) []message {
	t.Helper()
	var all []message
	var m message
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("read the stream after %v: %v", all, err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			m.event = value
		case "id":
			m.id = value
		case "data":
			m.data = value
		case "":
			if m.event == "" {
				continue // a comment
			}
			all = append(all, m)
			if m.event == "commit" {
				return all
			}
			m = message{}
		}
	}
}

// saysIn returns the items in messages, as section/key=item.
func saysIn(t *testing.T, all []message) []string {
	t.Helper()
	var said []string
	for _, m := range all {
		if m.event != "items" {
			continue
		}
		var changes [][3]json.RawMessage
		if err := json.Unmarshal([]byte(m.data), &changes); err != nil {
			t.Fatalf("message %.200s: %v", m.data, err)
		}
		for _, c := range changes {
			said = append(said, fmt.Sprintf("%s/%s=%s", strings.Trim(string(c[0]), `"`), strings.Trim(string(c[1]), `"`), c[2]))
		}
	}
	return said
}

func TestAStreamBeginsWithAllAndContinuesWithWhatChanges(t *testing.T) {
	s, h := serve(t)
	s.Show(items("a=1", "b=1"))
	answer := ask(t, s, h.URL+"/events")
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the stream is %q", kind)
	}
	in := bufio.NewReader(answer.Body)
	first := messages(t, in)
	if first[0].event != "reset" {
		t.Errorf("it begins with %q, want reset", first[0].event)
	}
	if diff := cmp.Diff([]string{"nodes/a=1", "nodes/b=1"}, saysIn(t, first)); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	s.Show(items("b=2"))
	second := messages(t, in)
	if diff := cmp.Diff([]string{"nodes/a=null", "nodes/b=2"}, saysIn(t, second)); diff != "" {
		t.Errorf("then (-want +got):\n%s", diff)
	}

	t.Run("a browser that comes back is told what it has missed", func(t *testing.T) {
		answer := ask(t, s, h.URL+"/events", func(r *http.Request) { r.Header.Set("Last-Event-ID", first[len(first)-1].id) })
		missed := messages(t, bufio.NewReader(answer.Body))
		if diff := cmp.Diff([]string{"nodes/a=null", "nodes/b=2"}, saysIn(t, missed)); diff != "" || missed[0].event == "reset" {
			t.Errorf("begins with %s (-want +got):\n%s", missed[0].event, diff)
		}
	})
	t.Run("one that was told by another program is told all", func(t *testing.T) {
		answer := ask(t, s, h.URL+"/events", func(r *http.Request) { r.Header.Set("Last-Event-ID", "OTHER-1") })
		all := messages(t, bufio.NewReader(answer.Body))
		if diff := cmp.Diff([]string{"nodes/b=2"}, saysIn(t, all)); diff != "" || all[0].event != "reset" {
			t.Errorf("begins with %s (-want +got):\n%s", all[0].event, diff)
		}
	})
}

// large returns n items of the given size.
func large(n, bytes int, with string) []status.Item {
	var all []status.Item
	for i := range n {
		all = append(all, status.Item{Section: "nodes", Key: fmt.Sprint(i), JSON: []byte(`"` + strings.Repeat(with, bytes) + `"`)})
	}
	return all
}

func TestMessagesAreBounded(t *testing.T) {
	s, h := serve(t)
	s.Show(large(500, 1000, "x"))
	all := messages(t, bufio.NewReader(ask(t, s, h.URL+"/events").Body))
	if got := len(saysIn(t, all)); got != 500 {
		t.Errorf("%d items were told, want 500", got)
	}
	for _, m := range all {
		if len(m.data) > mostMessage+1100 {
			t.Errorf("a message has %d bytes, want %d and one item at most", len(m.data), mostMessage)
		}
	}
}

// TestAReaderThatDoesNotReadIsDisconnected opens a stream and does not read it while much changes.
func TestAReaderThatDoesNotReadIsDisconnected(t *testing.T) {
	s, h := serve(t)
	s.patience = 200 * time.Millisecond
	s.Show(large(100, 1000, "a"))
	conn, err := net.Dial("tcp", h.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\nCookie: %s=t0ken\r\n\r\n", s.cookie())
	one := make([]byte, 1)
	if _, err := io.ReadFull(conn, one); err != nil { // the stream has begun
		t.Fatal(err)
	}
	for end := time.Now().Add(long); s.streams.Load() > 0; {
		if time.Now().After(end) {
			t.Fatal("the stream of a reader that does not read still continues")
		}
		s.Show(large(3000, 10_000, string(rune('a'+time.Now().UnixNano()%20))))
	}
	if kept := len(s.hub.items); kept != 3000 {
		t.Errorf("%d items are kept for it, want those that there are", kept)
	}
}

func TestSoManyPagesMayBeOpenAndNoMore(t *testing.T) {
	s, h := serve(t)
	s.Show(items("a=1"))
	for range mostStreams {
		messages(t, bufio.NewReader(ask(t, s, h.URL+"/events").Body))
	}
	if got := ask(t, s, h.URL+"/events").StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("one more gets status %d, want %d", got, http.StatusServiceUnavailable)
	}
	if got := ask(t, s, h.URL+"/").StatusCode; got != http.StatusOK {
		t.Errorf("the page itself gets status %d, want 200", got)
	}
}
