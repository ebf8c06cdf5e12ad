package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

const statusPage = "Active connections: 3 \nserver accepts handled requests\n 10 10 20 \nReading: 0 Writing: 2 Waiting: 1 \n"

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
	return string(body)
}

func TestNginxIsScrapedThroughTheSidecar(t *testing.T) {
	status := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, statusPage) }))
	defer status.Close()
	path := filepath.Join(t.TempDir(), "access.log")
	fake := testclock.NewFakeClock(time.Unix(0, 0))
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{StatusURL: status.URL, LogPath: path, Poll: time.Second, MaxUpstreams: 10, Listen: "127.0.0.1:0", Clock: fake,
			Log: funcr.New(func(_, line string) { t.Log(line) }, funcr.Options{})}, func(a net.Addr) { address <- a.String() })
	}()
	url := "http://" + <-address
	if got := get(t, url+"/healthz"); got != "ok\n" {
		t.Errorf("healthz says %q", got)
	}
	if got := get(t, url+"/metrics"); !strings.Contains(got, "nginx_connections_waiting 1\n") {
		t.Errorf("no connections in\n%s", got)
	}
	// Lines that the log contains when it is first opened are not counted.
	testwait.For(t, time.Minute, "the log is looked for", fake.HasWaiters)
	testfile.Write(t, path, `{"status":"200","request_time":"0.1","upstream":"web"}`+"\n")
	const counted = `nginx_log_requests_total{status="2xx",upstream="web"} 1`
	testwait.Until(t, time.Minute, "it has "+counted, func() string {
		metrics := get(t, url+"/metrics")
		if strings.Contains(metrics, counted) {
			return ""
		}
		if fake.HasWaiters() {
			fake.Step(time.Second)
		}
		return metrics
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAPageThatIsNoStatusIsDown(t *testing.T) {
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	o := Options{StatusURL: missing.URL}
	if _, err := o.readStatus(); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v, want one with the answer's status", err)
	}
	missing.Close()
	if _, err := o.readStatus(); err == nil {
		t.Error("no error from a server that is gone")
	}
}

func TestAFaultIsLoggedOnceForEachChange(t *testing.T) {
	var lines int
	say := once(funcr.New(func(_, _ string) { lines++ }, funcr.Options{}), "it")
	for _, err := range []error{nil, errors.New("a"), errors.New("a"), errors.New("b"), nil, nil} {
		say(err)
	}
	if lines != 3 {
		t.Errorf("%d lines, want one for each fault and one for its end", lines)
	}
}

func TestOptionsThatCannotBeAreRefusedTogether(t *testing.T) {
	err := Run(t.Context(), Options{Keep: -1, Clock: clock.RealClock{}}, nil)
	for _, want := range []string{"--status-url and --access-log", "--keep-log-bytes", "--poll", "--max-upstreams"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s in it", err, want)
		}
	}
	o := Options{StatusURL: "stub_status", Poll: time.Second, MaxUpstreams: 1}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "--status-url") {
		t.Errorf("error %v, want one about --status-url", err)
	}
}
