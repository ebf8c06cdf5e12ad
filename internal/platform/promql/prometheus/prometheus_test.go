package prometheus

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/platform/promql"
	"supercargo.dev/supercargo/test/kit/testfile"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// serve answers every request with the given text.
func serve(t testing.TB, status int, text string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s
}

func client(t testing.TB, c Config) *Client {
	t.Helper()
	made, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func TestAnswersAreRead(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		want         []promql.Sample
	}{
		{"a vector", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"web"},"value":[1767323045,"1.5"]}]}}`,
			[]promql.Sample{{Labels: map[string]string{"__name__": "up", "job": "web"}, Value: 1.5, At: at}}},
		{"no series", `{"status":"success","data":{"resultType":"vector","result":[]}}`, []promql.Sample{}},
		{"a scalar", `{"status":"success","data":{"resultType":"scalar","result":[1767323045,"42"]}}`, []promql.Sample{{Value: 42, At: at}}},
		{"infinite", `{"status":"success","data":{"resultType":"scalar","result":[1767323045,"-Inf"]}}`, []promql.Sample{{Value: math.Inf(-1), At: at}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := client(t, Config{URL: serve(t, http.StatusOK, tc.answer).URL}).Query(t.Context(), "up", at)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i].At = got[i].At.UTC()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("samples (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNotANumberIsPassedOn(t *testing.T) {
	s := serve(t, http.StatusOK, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1767323045,"NaN"]}]}}`)
	got, err := client(t, Config{URL: s.URL}).Query(t.Context(), "0/0", at)
	if err != nil || len(got) != 1 || !math.IsNaN(got[0].Value) {
		t.Errorf("%v, %v, want NaN", got, err)
	}
}

func TestTheQuestionCarriesTimeLookbackAndTimeout(t *testing.T) {
	var form map[string][]string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		form = r.Form
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	}))
	defer s.Close()
	c := client(t, Config{URL: s.URL, Timeout: 3 * time.Second, Lookback: time.Minute})
	if _, err := c.Query(t.Context(), `rate(requests{a="b"}[1m])`, at); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"query": {`rate(requests{a="b"}[1m])`}, "time": {"1767323045"}, "lookback_delta": {"1m0s"}, "timeout": {"3s"}}
	if diff := cmp.Diff(want, form); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

func TestWarningsArePassedOnBesideTheAnswer(t *testing.T) {
	s := serve(t, http.StatusOK, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]},"warnings":["a store is away"]}`)
	samples, warnings, err := client(t, Config{URL: s.URL}).QueryWarned(t.Context(), "x", at)
	if err != nil || len(samples) != 1 || !cmp.Equal(warnings, []string{"a store is away"}) {
		t.Errorf("%v, warnings %q, %v", samples, warnings, err)
	}
}

func TestAnswersThatAreNoneAreErrors(t *testing.T) {
	for _, tc := range []struct {
		name, answer, says string
		status             int
	}{
		{"garbled", `{"status":"succ`, "bad_response", http.StatusOK},
		{"a page", "<html>" + strings.Repeat("login ", 10_000), "bad_response", http.StatusOK},
		{"empty", "", "bad_response", http.StatusOK},
		{"no data", `{"status":"success"}`, "query", http.StatusOK},
		{"null", `null`, "query", http.StatusOK},
		{"a range", `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "must be an instant vector", http.StatusOK},
		{"a text", `{"status":"success","data":{"resultType":"string","result":[1,"a"]}}`, "query", http.StatusOK},
		{"another form", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":["x",3]}]}}`, "query", http.StatusOK},
		{"a histogram", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1","sum":"2","buckets":[]}]}]}}`, "histogram_quantile", http.StatusOK},
		{"refused", `{"status":"error","errorType":"bad_data","error":"parse error at char 3"}`, "parse error at char 3", http.StatusBadRequest},
		{"not allowed", "no", "403", http.StatusForbidden},
		{"out of order", strings.Repeat("x", 10_000), "503", http.StatusServiceUnavailable},
		{"elsewhere", "", "", http.StatusFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, tc.status, tc.answer)
			got, err := client(t, Config{URL: s.URL}).Query(t.Context(), "the_query", at)
			if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), s.URL) || !strings.Contains(err.Error(), "the_query") {
				t.Errorf("%v, %v, want an error that says %q, the query and the server", got, err, tc.says)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestHugeAnswersAreBrokenOff(t *testing.T) {
	sent := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page := []byte(strings.Repeat(" ", 1<<16))
		for range 1 << 10 { // 64 MiB
			n, err := w.Write(page)
			if sent += n; err != nil {
				return
			}
		}
	}))
	_, err := client(t, Config{URL: s.URL, MaxBytes: 1 << 20}).Query(t.Context(), "x", at)
	s.Close()
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("error %v, want it to name the bound", err)
	}
	if sent > 32<<20 {
		t.Errorf("%d bytes were sent before it was broken off", sent)
	}
}

func TestAnAnswerAsLongAsTheBoundIsRead(t *testing.T) {
	const answer = `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`
	s := serve(t, http.StatusOK, answer)
	if _, err := client(t, Config{URL: s.URL, MaxBytes: int64(len(answer))}).Query(t.Context(), "x", at); err != nil {
		t.Error(err)
	}
	if _, err := client(t, Config{URL: s.URL, MaxBytes: int64(len(answer)) - 1}).Query(t.Context(), "x", at); err == nil {
		t.Error("a byte more than allowed is read")
	}
}

func TestSlowAnswersEndWithTheTimeout(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" { // begins and never ends
			_, _ = io.WriteString(w, `{"status":`)
			w.(http.Flusher).Flush()
		}
		<-hang
	}))
	defer s.Close()
	defer close(hang)
	_, err := client(t, Config{URL: s.URL, Timeout: 50 * time.Millisecond}).Query(t.Context(), "x", at)
	if err == nil || !strings.Contains(err.Error(), "no response within 50ms") {
		t.Errorf("error %v, want it to say for how long was waited", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(t, Config{URL: s.URL}).Query(ctx, "x", at); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the caller gave up", err)
	}
}

func TestNobodyThereIsAnErrorThatNamesTheServer(t *testing.T) {
	s := serve(t, http.StatusOK, "")
	s.Close()
	if _, err := client(t, Config{URL: s.URL}).Query(t.Context(), "x", at); err == nil || !strings.Contains(err.Error(), s.URL) {
		t.Errorf("error %v", err)
	}
}

// secure serves the token of the request over TLS. It writes its certificate to the returned file.
func secure(t *testing.T) (server *httptest.Server, ca string) {
	t.Helper()
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	ca = filepath.Join(t.TempDir(), "ca.crt")
	testfile.Write(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return server, ca
}

func TestServersAreVerifiedAndToldTheToken(t *testing.T) {
	server, ca := secure(t)
	token := testfile.New(t, "token", "secret\n")
	if _, err := client(t, Config{URL: server.URL, TokenFile: token}).Query(t.Context(), "x", at); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without its CA the server is trusted: %v", err)
	}
	c := client(t, Config{URL: server.URL, CAFile: ca, TokenFile: token})
	if _, err := c.Query(t.Context(), "x", at); err != nil {
		t.Error(err)
	}
	testfile.Write(t, token, "stale")
	if _, err := c.Query(t.Context(), "x", at); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a token that was rotated is not read again: %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	if _, err := client(t, Config{URL: s.URL}).Query(t.Context(), "x", at); err == nil || asked {
		t.Errorf("error %v, another server was asked: %v", err, asked)
	}
}

func TestImpossibleConfigurationsAreRefused(t *testing.T) {
	for _, tc := range []struct {
		c    Config
		says string
	}{
		{Config{URL: ""}, "url: required: the address of the server, such as https://prometheus.monitoring:9090"},
		{Config{URL: "prometheus:9090"}, "must have scheme http or https"},
		{Config{URL: "ftp://a"}, "must have scheme http or https"},
		{Config{URL: "http://"}, "and a host"},
		{Config{URL: "https://me:pass@a"}, "must not have a user"},
		{Config{URL: "https://a?x=1"}, "must not have a query or a fragment"},
		{Config{URL: "http://a", TokenFile: "t"}, "not sent unencrypted"},
		{Config{URL: "http://a", Timeout: -1}, "timeout"},
		{Config{URL: "http://a", Lookback: -1}, "lookback"},
		{Config{URL: "http://a", MaxBytes: -1}, "most bytes"},
		{Config{URL: "https://a", CAFile: "/none"}, "/none"},
	} {
		_, err := New(tc.c)
		if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%+v: %v, want it to say %q", tc.c, err, tc.says)
		}
	}
}

// FuzzAnswer checks that any response gives an error or samples.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2"]}]}}`)
	f.Add(`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`)
	f.Add(`{"status":"error","error":"x"}`)
	f.Add(`{"data":{"resultType":"vector","result":[null]}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, answer string) {
		c := client(t, Config{URL: "http://server"})
		c.http.Transport = answering(answer)
		talks, err := newAPI(c.config, c.http)
		if err != nil {
			t.Fatal(err)
		}
		c.api = talks
		samples, err := c.Query(t.Context(), "x", at)
		if err == nil && samples == nil {
			t.Errorf("%q: neither samples nor an error", answer)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("%q: an error of %d bytes", answer, len(err.Error()))
		}
	})
}

type answering string

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

func ExampleConfig() {
	_, err := New(Config{URL: "https://me:secret@prometheus"})
	fmt.Println(err)
	// Output: set up queries: url "https://me:xxxxx@prometheus": must not have a user, which logs would show
}
