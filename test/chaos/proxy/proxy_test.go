package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds waits for what an idle host does immediately.
const patience = 20 * time.Second

// upstream is a server that counts the writes that it carries out, and keeps watches open until they
// are cancelled.
type upstream struct {
	*httptest.Server
	mu     sync.Mutex
	agents []string
	writes int
}

func start(t *testing.T) (*upstream, *Proxy) {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.agents = append(u.agents, r.UserAgent())
		if r.Method == http.MethodPost {
			u.writes++
		}
		u.mu.Unlock()
		_, _ = io.WriteString(w, "hello\n")
		if r.URL.Query().Get("watch") == "true" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(u.Close)
	p, err := New(u.URL, u.Client().Transport, u.TLS.Certificates[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	p.Serves("autoscaler-1.1")
	return u, p
}

func (u *upstream) seen() (writes int, lastAgent string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.writes, u.agents[len(u.agents)-1]
}

// client returns a client that accepts every certificate.
func client(t *testing.T, timeout time.Duration) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true} //nolint:gosec // a test server of this process
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: timeout}
}

func ask(c *http.Client, method, url string) (status int, body string, header http.Header, err error) {
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(""))
	if err != nil {
		return 0, "", nil, err
	}
	r.Header.Set("User-Agent", "test")
	response, err := c.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), response.Header, errors.Join(err, response.Body.Close())
}

func TestInFairWeatherAllPassesAndSaysWhoItIs(t *testing.T) {
	u, p := start(t)
	status, body, _, err := ask(client(t, patience), http.MethodPost, p.URL())
	if status != http.StatusOK || body != "hello\n" || err != nil {
		t.Errorf("%d %q, %v", status, body, err)
	}
	if writes, agent := u.seen(); writes != 1 || agent != "test replica/autoscaler-1.1" {
		t.Errorf("%d writes, the last as %q", writes, agent)
	}
	if p.Hits() != 0 {
		t.Errorf("%d hits in fair weather", p.Hits())
	}
}

func TestTooManyAsksToComeAgain(t *testing.T) {
	u, p := start(t)
	p.Set(Weather{TooMany: 1})
	status, _, header, err := ask(client(t, patience), http.MethodPost, p.URL())
	if status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" || err != nil {
		t.Errorf("%d, Retry-After %q, %v", status, header.Get("Retry-After"), err)
	}
	p.Set(Weather{})
	if status, _, _, err := ask(client(t, patience), http.MethodPost, p.URL()); status != http.StatusOK || err != nil {
		t.Errorf("afterwards %d, %v", status, err)
	}
	if writes, _ := u.seen(); writes != 1 {
		t.Errorf("%d writes, want the last alone", writes)
	}
}

func TestALostAnswerIsOfAWriteThatWasCarriedOut(t *testing.T) {
	u, p := start(t)
	p.Set(Weather{LoseAnswers: 1})
	if status, _, _, err := ask(client(t, patience), http.MethodPost, p.URL()); err == nil {
		t.Errorf("it was answered with %d", status)
	}
	if writes, _ := u.seen(); writes != 1 {
		t.Errorf("%d writes were carried out, want 1", writes)
	}
	if status, _, _, err := ask(client(t, patience), http.MethodGet, p.URL()); status != http.StatusOK || err != nil {
		t.Errorf("a read: %d, %v", status, err)
	}
}

func TestARefusedClientIsCutOffAtOnce(t *testing.T) {
	_, p := start(t)
	c := client(t, patience)
	ended := watch(t, c, p)
	p.Set(Weather{Refuse: true})
	within(t, "the watch ends", ended)
	if _, _, _, err := ask(c, http.MethodGet, p.URL()); err == nil {
		t.Error("it is served")
	}
	p.Set(Weather{})
	if status, _, _, err := ask(c, http.MethodGet, p.URL()); status != http.StatusOK || err != nil {
		t.Errorf("afterwards %d, %v", status, err)
	}
}

func TestWatchesAreResetAndOthersAreNot(t *testing.T) {
	_, p := start(t)
	c := client(t, patience)
	ended := watch(t, c, p)
	if p.Watches() != 1 {
		t.Errorf("%d watches", p.Watches())
	}
	p.ResetWatches()
	within(t, "the watch ends", ended)
	if status, _, _, err := ask(c, http.MethodGet, p.URL()); status != http.StatusOK || err != nil {
		t.Errorf("a read: %d, %v", status, err)
	}
}

func TestWhatIsSwallowedNeverArrives(t *testing.T) {
	u, p := start(t)
	c := client(t, patience)
	if _, _, _, err := ask(c, http.MethodPost, p.URL()); err != nil {
		t.Fatal(err)
	}
	ended := watch(t, c, p)
	p.Set(Weather{Swallow: true})
	impatient := *c
	impatient.Timeout = 300 * time.Millisecond
	if status, _, _, err := ask(&impatient, http.MethodPost, p.URL()); err == nil {
		t.Errorf("it is answered with %d", status)
	}
	select {
	case <-ended:
		t.Error("the watch has ended: it was to hang")
	default:
	}
	p.Set(Weather{})
	within(t, "the watch ends", ended)
	if status, _, _, err := ask(c, http.MethodGet, p.URL()); status != http.StatusOK || err != nil {
		t.Errorf("afterwards %d, %v", status, err)
	}
	if writes, _ := u.seen(); writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
}

func TestARequestWaits(t *testing.T) {
	_, p := start(t)
	p.Set(Weather{Delay: time.Hour})
	c := client(t, 200*time.Millisecond)
	if status, _, _, err := ask(c, http.MethodGet, p.URL()); err == nil {
		t.Errorf("it is answered with %d", status)
	}
}

// watch opens a watch. The returned channel is closed when the watch ends.
func watch(t *testing.T, c *http.Client, p *Proxy) <-chan struct{} {
	t.Helper()
	endless := *c
	endless.Timeout = 0
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+"/?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := endless.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}()
	return ended
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
}
