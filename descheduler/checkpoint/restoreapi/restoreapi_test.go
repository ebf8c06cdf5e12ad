package restoreapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// folder returns a folder whose socket has a short path, as Linux requires.
func folder(t *testing.T) Folder {
	t.Helper()
	dir, err := os.MkdirTemp("", "restore")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := Folder(filepath.Join(dir, "f"))
	if err := f.Make(); err != nil {
		t.Fatal(err)
	}
	return f
}

// serve runs an agent until the test ends. It returns when the agent listens.
func serve(t *testing.T, f Folder, answer func(context.Context, Request) (Answer, error)) (failed func() []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var errs []error
	listener, err := f.listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- serveAt(ctx, listener, answer, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the agent ended with %v", err)
		}
	})
	return func() []error {
		mu.Lock()
		defer mu.Unlock()
		return errs
	}
}

// never fails if a runtime has to wait.
func never(t *testing.T) func(context.Context, time.Duration) {
	return func(context.Context, time.Duration) { t.Error("the runtime has to ask again") }
}

func TestARuntimeGetsItsAnswer(t *testing.T) {
	f := folder(t)
	request := Request{Version: Version, Pod: "uid-1", Container: "main", ID: "c1"}
	want := Answer{Images: "/i", Changes: "/c", Volumes: []Volume{{"/dev/shm", "/v"}}, EarlierLog: "/e", Log: "/l"}
	serve(t, f, func(_ context.Context, got Request) (Answer, error) {
		if got != request {
			t.Errorf("the agent is asked %+v, want %+v", got, request)
		}
		return want, nil
	})
	got, err := f.Ask(t.Context(), Request{Pod: "uid-1", Container: "main", ID: "c1"}, never(t))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the answer is %+v (%v), want %+v", got, err, want)
	}
}

func TestARuntimeAsksAgainUntilAnAgentAnswers(t *testing.T) {
	f := folder(t)
	asked := 0
	waited := 0
	got, err := f.Ask(t.Context(), Request{Pod: "uid-1"}, func(context.Context, time.Duration) {
		if waited++; waited > 1 {
			return
		}
		serve(t, f, func(context.Context, Request) (Answer, error) { // there was no agent before
			if asked++; asked == 1 {
				return Answer{}, errors.New("containerd is starting")
			}
			return Answer{Images: "/i"}, nil
		})
	})
	if err != nil || got.Images != "/i" || asked != 2 || waited != 2 {
		t.Errorf("the answer is %+v (%v) after %d questions and %d waits, want one after 2 and 2", got, err, asked, waited)
	}
}

func TestARuntimeWaitsNoLongerThanItMay(t *testing.T) {
	f := folder(t)
	t.Run("without an agent", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := f.Ask(ctx, Request{Pod: "uid-1"}, func(context.Context, time.Duration) { cancel() })
		if err == nil || !strings.Contains(err.Error(), f.socket()) {
			t.Errorf("the error is %v, want one that names the socket", err)
		}
	})
	t.Run("with an agent that does not answer", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan struct{})
		serve(t, f, func(ctx context.Context, _ Request) (Answer, error) {
			cancel()
			<-ctx.Done() // it learns that the runtime no longer waits
			close(gaveUp)
			return Answer{}, ctx.Err()
		})
		if answer, err := f.Ask(ctx, Request{Pod: "uid-1"}, never(t)); err == nil {
			t.Errorf("the answer is %+v, want an error", answer)
		}
		<-gaveUp
	})
}

func TestAnOldRuntimeIsRefused(t *testing.T) {
	f := folder(t)
	serve(t, f, func(context.Context, Request) (Answer, error) {
		t.Error("the agent answers a request of an unknown version")
		return Answer{}, nil
	})
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "unix", f.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }() // the answer is complete
	var a Answer
	if err := errors.Join(write(connection, Request{Version: Version + 1}), read(connection, &a)); err != nil || !strings.Contains(a.Refused, "update the runtime") {
		t.Errorf("the answer is %+v, %v", a, err)
	}
}

func TestMessagesThatAreNoneAreRejected(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":          "",
		"half of one":      `{"pod":"a"`,
		"no end":           `{"pod":"a"}`,
		"no JSON":          "hello\n",
		"an unknown field": `{"pod":"a","encrypted":true}` + "\n",
		"without end":      strings.Repeat(" ", maxMessage+1),
	} {
		var r Request
		if err := read(strings.NewReader(text), &r); err == nil {
			t.Errorf("%s is read as %+v", name, r)
		}
	}
	if err := write(io.Discard, Request{Pod: strings.Repeat("x", maxMessage)}); err == nil {
		t.Error("a message that is too long is written")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"version":1,"pod":"a","container":"b","id":"c"}` + "\n"))
	f.Add([]byte("{}\n{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r, again Request
		if read(bytes.NewReader(text), &r) != nil {
			return
		}
		var sent bytes.Buffer
		if err := errors.Join(write(&sent, r), read(&sent, &again)); err != nil || again != r {
			t.Errorf("%+v becomes %+v on its way: %v", r, again, err)
		}
	})
}

func TestTheListOfPods(t *testing.T) {
	f := folder(t)
	if f.Any() || f.Has("uid-1") {
		t.Error("a new folder lists a pod")
	}
	for range 2 { // each may be repeated
		if err := f.Expect("uid-1"); err != nil {
			t.Fatal(err)
		}
	}
	if pods, err := f.Listed(); !f.Any() || !f.Has("uid-1") || f.Has("uid-2") || err != nil || len(pods) != 1 || pods[0] != "uid-1" {
		t.Errorf("the folder lists %v (%v), any %v", pods, err, f.Any())
	}
	for range 2 {
		if err := f.Release("uid-1"); err != nil {
			t.Fatal(err)
		}
	}
	if f.Any() || f.Has("uid-1") {
		t.Error("the pod is still listed")
	}
	for _, uid := range []string{"", ".", "..", "../f", "a/b", "-x", strings.Repeat("a", 200)} {
		if f.Expect(uid) == nil || f.Release(uid) == nil || f.Has(uid) {
			t.Errorf("%q is taken for the UID of a pod", uid)
		}
	}
}

func TestAFolderThatOthersCanEnterListsNothing(t *testing.T) {
	f := folder(t)
	if err := f.Expect("uid-1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(string(f), 0o711); err != nil {
		t.Fatal(err)
	}
	if f.Any() {
		t.Error("a list that others can write is used")
	}
	if f.Make() == nil {
		t.Error("the agent uses a folder that others can enter")
	}
	if Folder("/nowhere/restore").Any() {
		t.Error("a folder that does not exist lists a pod")
	}
}
