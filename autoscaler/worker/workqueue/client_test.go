package workqueue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func recordedAnswers(t *testing.T) map[string]string {
	answers := map[string]string{}
	for _, name := range []string{"queue_status", "task_status", "worker_status", "wable_status"} {
		answers[name] = string(recorded(t, name))
	}
	return answers
}

// asksEverything sends all queries and checks the answers.
func asksEverything(t *testing.T, c *Client) {
	t.Helper()
	queue, err := c.Queue(t.Context())
	if err != nil || queue.Waiting != 3 {
		t.Errorf("queue %+v, %v", queue, err)
	}
	tasks, err := c.Tasks(t.Context())
	if err != nil || len(tasks) != 6 {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
	workers, err := c.Workers(t.Context())
	if err != nil || len(workers) != 1 {
		t.Errorf("workers %+v, %v", workers, err)
	}
	categories, err := c.Categories(t.Context())
	if err != nil || len(categories) != 1 || categories[0].Name != "split" {
		t.Errorf("categories %+v, %v", categories, err)
	}
}

func TestAManagerIsAskedOnlyWhatItKnows(t *testing.T) {
	m := workqueuetest.Start(t, recordedAnswers(t), "", nil)
	asksEverything(t, &Client{Address: m.Address})
	if n := m.Lost(); n > 0 {
		t.Errorf("%d queries that the manager takes for lost workers", n)
	}
}

func TestPasswordsAreProvenOnBothSides(t *testing.T) {
	m := workqueuetest.Start(t, recordedAnswers(t), "secret\n", nil)
	asksEverything(t, &Client{Address: m.Address, Password: "secret\n"})
	if _, err := (&Client{Address: m.Address, Password: "wrong"}).Queue(t.Context()); !errors.Is(err, ErrPassword) {
		t.Errorf("with a wrong one: error %v, want %v", err, ErrPassword)
	}
	open := workqueuetest.Start(t, recordedAnswers(t), "", nil)
	if _, err := (&Client{Address: open.Address, Password: "secret"}).Queue(t.Context()); err == nil {
		t.Error("a manager without password is trusted to have one")
	}
	if _, err := (&Client{Address: m.Address}).Queue(t.Context()); err == nil || !strings.Contains(err.Error(), "requires a password") && !strings.Contains(err.Error(), "JSON array") {
		t.Errorf("without one: error %v", err)
	}
}

func TestWhatAnErrorSaysOfAManager(t *testing.T) {
	closed := workqueuetest.Start(t, nil, "", nil)
	closed.Close()
	answering := func(answer string) string {
		return workqueuetest.Start(t, map[string]string{"queue_status": answer}, "", nil).Address
	}
	full, err := net.Listen("tcp", "127.0.0.1:0") // like a stopped manager: no process accepts connections
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, tc := range []struct {
		name, address string
		gone, silent  bool
	}{
		{"nobody listens", closed.Address, true, true},
		{"no host of that name", "manager.invalid:9123", true, true},
		{"it is stopped", full.Addr().String(), false, true},
		{"it hangs", answering(workqueuetest.Hang), false, true},
		{"it is cut off", answering(`[{"tasks_waiting":`), false, false},
		{"it closes at once", answering(""), false, false},
	} {
		c := &Client{Address: tc.address, Timeout: 300 * time.Millisecond}
		if tc.name == "no host of that name" {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "manager.invalid", IsNotFound: true}}
			}
		}
		_, err := c.Queue(t.Context())
		if err == nil || IsGone(err) != tc.gone || IsSilent(err) != tc.silent {
			t.Errorf("%s: %v says gone %v and silent %v, want %v and %v", tc.name, err, IsGone(err), IsSilent(err), tc.gone, tc.silent)
		}
	}
}

func TestManagersMayWantTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS() // for its certificate, which is for 127.0.0.1
	defer server.Close()
	m := workqueuetest.Start(t, recordedAnswers(t), "secret", server.TLS)
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig
	asksEverything(t, &Client{Address: m.Address, Password: "secret", TLS: trusted})
	if _, err := (&Client{Address: m.Address, Password: "secret", TLS: &tls.Config{}}).Queue(t.Context()); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("with a certificate that nobody vouches for: error %v", err)
	}
}

func TestSlowLargeAndGarbledAnswersAreErrors(t *testing.T) {
	m := workqueuetest.Start(t, map[string]string{
		"queue_status": workqueuetest.Hang, "task_status": `[{"taskid":1},`, "worker_status": "[" + strings.Repeat(" ", 1000) + "]", "wable_status": "",
	}, "", nil)
	c := &Client{Address: m.Address, Timeout: 100 * time.Millisecond, MaxBytes: 100}
	if _, err := c.Queue(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow: error %v, want %v", err, context.DeadlineExceeded)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Queue(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("abandoned: error %v, want %v", err, context.Canceled)
	}
	if tasks, err := c.Tasks(t.Context()); err == nil || tasks != nil || !strings.Contains(err.Error(), "for task_status: entry 1") {
		t.Errorf("cut off: %v and error %v", tasks, err)
	}
	if _, err := c.Workers(t.Context()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("large: error %v, want %v", err, ErrTooLarge)
	}
	if _, err := c.Categories(t.Context()); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("empty: error %v, want %v", err, ErrNoAnswer)
	}
	down := workqueuetest.Start(t, nil, "", nil).Address
	if _, err := (&Client{Address: down}).Queue(t.Context()); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a manager that does not know the query: error %v", err)
	}
}

const catalogEntries = `[
{"type":"wq_master","project":"p","address":"192.0.2.1","port":9123,"lastheardfrom":100,"tasks_waiting":5},
{"type":"wq_manager","project":"p","address":"2001:db8::1","port":"9124","lastheardfrom":200,"ssl":true},
{"type":"vine_manager","project":"p","address":"192.0.2.2","port":9125,"lastheardfrom":300},
{"type":"makeflow","project":"p","address":"192.0.2.3","lastheardfrom":300},
{"type":"wq_master","project":"other","address":"192.0.2.4","port":9123,"lastheardfrom":300},
{"type":"wq_master","project":"p","address":"192.0.2.5","port":0,"lastheardfrom":300}
]`

func TestDiscoveryTakesTheManagerHeardOfLast(t *testing.T) {
	for _, old := range []bool{false, true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/query/cHJvamVjdD09InAi" && !old, r.URL.Path == "/query.json": // project=="p"
				fmt.Fprint(w, catalogEntries)
			default:
				fmt.Fprint(w, "<html>what?</html>")
			}
		}))
		defer server.Close()
		here := Catalog{Address: server.Listener.Addr().String()}
		nowhere := Catalog{Address: "127.0.0.1:1"}
		got, err := Discover(t.Context(), []Catalog{nowhere, here}, "p")
		if err != nil || got.Address != "[2001:db8::1]:9124" || !got.TLS || got.Heard.Unix() != 200 {
			t.Errorf("old server %v: %+v, %v", old, got, err)
		}
		if _, err := Discover(t.Context(), []Catalog{nowhere, here}, "q"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("error %v, want %v and the server that is down", err, ErrNotFound)
		}
	}
}

func TestCatalogServersAreBoundedAndNotFollowed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/query/") {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
			return
		}
		fmt.Fprint(w, catalogEntries)
	}))
	defer server.Close()
	_, err := Catalog{Address: server.Listener.Addr().String(), MaxBytes: 50}.Managers(t.Context(), "p")
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "302") {
		t.Errorf("error %v, want %v and the redirection refused", err, ErrTooLarge)
	}
}

func FuzzAuthenticate(f *testing.F) {
	f.Add("auth password sha1\nword\n0123\nok\n")
	f.Add("auth password sha1\r\n\n\nfailure\n")
	f.Add(strings.Repeat("x", 3000))
	f.Fuzz(func(t *testing.T, manager string) {
		// A peer that does not know the password is not accepted as the manager.
		if err := authenticate(readWriter{strings.NewReader(manager), io.Discard}, "secret"); err == nil {
			t.Fatalf("%q is trusted", manager)
		}
	})
}

type readWriter struct {
	io.Reader
	io.Writer
}

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	data := testfile.Read(t, "answer/testdata/"+name+".json")
	return data
}
