package tasks

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// keeper is a recorder of the manager blast in the namespace shop, with its store and its log.
type keeper struct {
	*Recorder
	store *store.Store
	clock *clocktesting.FakeClock
	said  []string
}

func keep(t *testing.T, ask Asker) *keeper {
	t.Helper()
	k := &keeper{clock: clocktesting.NewFakeClock(noon)}
	o := store.Defaults()
	o.Dir, o.Clock, o.Registerer = t.TempDir(), k.clock, prometheus.NewRegistry()
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	readings, err := Count(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	k.store = s
	k.Recorder = &Recorder{
		Namespace: "shop", Manager: "blast", Ask: ask, Store: s, Interval: 15 * time.Second, Readings: readings, Clock: k.clock,
		Log: funcr.New(func(_, line string) { k.said = append(k.said, line) }, funcr.Options{}),
	}
	return k
}

// values returns the sorted current results of a query.
func (k *keeper) values(t *testing.T, query string) string {
	t.Helper()
	found, err := k.store.Query(t.Context(), query, k.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	values := []string{}
	for _, f := range found {
		values = append(values, fmt.Sprintf("%.6g", f.Value))
	}
	return strings.Join(values, " ")
}

// TestWhatAManagerSaysIsCurrentWhileItAnswers follows a manager that is down, up, slow, garbled and
// another queue, through its port, the store and the preset.
func TestWhatAManagerSaysIsCurrentWhileItAnswers(t *testing.T) {
	m := workqueuetest.Start(t, nil, "", nil)
	k := keep(t, &Source{Address: m.Address, Timeout: 100 * time.Millisecond})
	note := k.note()
	whole, err := preset.New(preset.WorkQueue, "shop", map[string]string{"manager": "blast"})
	if err != nil {
		t.Fatal(err)
	}
	split, err := preset.New(preset.WorkQueue, "shop", map[string]string{"manager": "blast", "category": "split"})
	if err != nil {
		t.Fatal(err)
	}
	state := func(waiting, submitted int) string {
		return fmt.Sprintf(`[{"type":"wq_manager","tasks_waiting":%d,"tasks_on_workers":2,"tasks_submitted":%d,"categories":[{"category":"split","tasks_waiting":%d,"tasks_on_workers":1}]}]`, waiting, submitted, waiting-1)
	}
	twice := strings.Replace(state(7, 40), `"categories":[`, `"categories":[{"category":"split"},`, 1)
	answered := 0
	for _, step := range []struct {
		what, answer        string
		up, length, ofSplit string
		says                string // of the error
	}{
		{"it closes without an answer", "", "0", "", "", "closed without an answer"},
		{"it is there", state(8, 10), "1", "10", "8", ""},
		{"it has more", state(9, 25), "1", "11", "9", ""},
		{"it is slow", workqueuetest.Hang, "0", "", "", "deadline exceeded"},
		{"it is garbled", state(9, 25)[:40], "0", "", "", "queue_status"},
		{"it counts below nothing", state(-1, 25), "0", "", "", `"-1" is not a count`},
		{"it says nothing", `[{}]`, "0", "", "", "must be one of wq_manager"},
		{"it leaves out what waits", `[{"type":"wq_manager","tasks_on_workers":2}]`, "1", "", "", ""},
		{"another queue has begun", state(3, 3), "1", "5", "3", ""},
		{"a category is there twice", twice, "1", "9", "", "is listed twice"},
		{"it is well again", state(7, 40), "1", "9", "7", ""},
	} {
		m.Put(map[string]string{"queue_status": step.answer})
		err := k.Record(t.Context())
		note(err)
		if (err == nil) != (step.says == "") || err != nil && !strings.Contains(err.Error(), step.says) {
			t.Errorf("%s: error %v, want one about %q", step.what, err, step.says)
		}
		for query, want := range map[string]string{
			`supercargo_workqueue_up{namespace="shop",manager="blast"}`: step.up, whole.QueueLength: step.length, split.QueueLength: step.ofSplit,
		} {
			if got := k.values(t, query); got != want {
				t.Errorf("%s: %s is %q, want %q", step.what, query, got, want)
			}
		}
		if step.up == "1" {
			answered++
		} else if got := k.values(t, `count({__name__=~".+"})`); got != "1" {
			t.Errorf("%s: %s series are current, want that it is not up", step.what, got)
		}
		k.clock.Step(15 * time.Second)
	}
	for said, want := range map[string]int{"true": answered, "false": 5} {
		if got := testutil.ToFloat64(k.Readings.WithLabelValues("shop", "blast", said)); got != float64(want) {
			t.Errorf("answered=%s is counted %v times, want %d", said, got, want)
		}
	}
	if m.Lost() > 0 {
		t.Errorf("the manager takes %d questions for lost workers", m.Lost())
	}
	// Each error and recovery is logged once, and errors of categories are separate.
	if n := len(k.said); n != 9 || !strings.Contains(k.said[0], "Failed to read the queue") || !strings.Contains(k.said[1], `Read the queue`) || !strings.Contains(k.said[7], "but not its categories") {
		t.Errorf("%d lines are said, want 9:\n%s", n, strings.Join(k.said, "\n"))
	}
}

// asked answers from a function.
type asked func(ctx context.Context) (workqueue.Queue, error)

func (a asked) Queue(ctx context.Context) (workqueue.Queue, error) { return a(ctx) }

func TestAnUnfinishedQuestionIsNoFaultOfTheManager(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	k := keep(t, asked(func(ctx context.Context) (workqueue.Queue, error) {
		cancel()
		return workqueue.Queue{}, ctx.Err()
	}))
	if err := k.Run(ctx); err != nil {
		t.Errorf("error %v at the end", err)
	}
	if n := testutil.ToFloat64(k.Readings.WithLabelValues("shop", "blast", "false")); n != 0 || len(k.said) > 0 || k.values(t, Up) != "" {
		t.Errorf("it is counted %v times and said %q", n, k.said)
	}
}

func TestItIsAskedAtEachInterval(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	questions := make(chan struct{})
	k := keep(t, asked(func(context.Context) (workqueue.Queue, error) {
		questions <- struct{}{}
		return workqueue.Queue{Type: "wq_manager"}, nil
	}))
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	<-questions // at the start
	for range 3 {
		k.clock.Step(k.Interval)
		<-questions
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAClockThatIsSetBackWritesNothing(t *testing.T) {
	waiting := int64(5)
	k := keep(t, asked(func(context.Context) (workqueue.Queue, error) {
		return workqueue.Queue{Type: "wq_manager", Waiting: waiting}, nil
	}))
	record := func() error { waiting++; return k.Record(t.Context()) }
	if err := record(); err != nil {
		t.Fatal(err)
	}
	k.clock.SetTime(noon.Add(-10 * time.Second))
	if err := record(); err == nil || !strings.Contains(err.Error(), "clock was set back to 2026-01-02T11:59:50Z") {
		t.Errorf("error %v, want one about the clock", err)
	}
	if got := k.values(t, Waiting); got != "" {
		t.Errorf("before it is asked first %s wait", got)
	}
	k.clock.SetTime(noon.Add(5 * time.Second))
	if err := record(); err != nil || k.values(t, Waiting) != "8" {
		t.Errorf("%s wait after noon (%v), want 8", k.values(t, Waiting), err)
	}
}

func TestAStoreWithoutRoomKeepsNothingOfAManager(t *testing.T) {
	k := keep(t, asked(func(context.Context) (workqueue.Queue, error) { return workqueue.Queue{Type: "wq_manager"}, nil }))
	o := store.Defaults()
	o.Dir, o.Clock, o.MaxSeries = t.TempDir(), k.clock, 3
	small, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := small.Close(); err != nil {
			t.Error(err)
		}
	}()
	k.Store, k.store = small, small
	if err := k.Record(t.Context()); err == nil || !strings.Contains(err.Error(), "--store-max-series") {
		t.Errorf("error %v, want one about the bound", err)
	}
	if got := k.values(t, `{__name__=~".+"}`); got != "" {
		t.Errorf("half of it is kept: %s", got)
	}
}

func TestPasswordsAuthoritiesAndCatalogsAreReadEachTime(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS() // for its certificate, which is for 127.0.0.1
	defer server.Close()
	m := workqueuetest.Start(t, map[string]string{"queue_status": recorded(t)}, "secret\n", server.TLS)
	host, port, _ := strings.Cut(m.Address, ":")
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"type":"wq_manager","project":"blast","address":%q,"port":%s,"lastheardfrom":100,"ssl":true}]`, host, port)
	}))
	defer catalog.Close()
	dir := t.TempDir()
	password, authorities := filepath.Join(dir, "password"), filepath.Join(dir, "ca.crt")
	write := func(file, text string) {
		t.Helper()
		testfile.Write(t, file, text)
	}
	direct := &Source{Address: m.Address, PasswordFile: password, TLS: true, CAFile: authorities, Timeout: 10 * time.Second}
	found := &Source{Catalogs: []workqueue.Catalog{{Address: catalog.Listener.Addr().String()}}, Project: "blast", PasswordFile: password, CAFile: authorities, Timeout: 10 * time.Second}
	says := func(step, want string) {
		t.Helper()
		for of, s := range map[string]*Source{"by address": direct, "by catalog": found} {
			q, err := s.Queue(t.Context())
			switch {
			case want == "" && (err != nil || q.Waiting != 3):
				t.Errorf("%s, %s: %+v, %v", step, of, q, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s, %s: error %v, want one about %s", step, of, err, want)
			}
		}
	}
	says("without a password", "read the password")
	write(password, "")
	says("with an empty one", "is empty")
	write(password, "wrong")
	says("without authorities", "read the authorities")
	write(authorities, "none")
	says("with a file that has none", "no PEM certificate")
	write(authorities, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	says("with a wrong password", "not match that of the manager")
	write(password, "secret\n")
	says("with all of it", "")
	direct.ServerName, found.ServerName = "example.com", "example.com" // which is in the certificate too
	says("by the name in the certificate", "")
	direct.ServerName, found.ServerName = "elsewhere.test", "elsewhere.test"
	says("by a name that is not", "elsewhere.test")
	direct.ServerName, found.ServerName = "", ""
	m.Put(map[string]string{"queue_status": "[" + strings.Repeat(" ", mostBytes) + "]"})
	says("with more than any queue has to say", workqueue.ErrTooLarge.Error())
	m.Put(map[string]string{"queue_status": recorded(t)})
	found.Project = "genome"
	if _, err := found.Queue(t.Context()); !errors.Is(err, workqueue.ErrNotFound) {
		t.Errorf("another project: error %v, want %v", err, workqueue.ErrNotFound)
	}
}
