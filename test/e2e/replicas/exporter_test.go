//go:build replicas

package replicas

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/autoscaler/adapter/nginx/exporter"
)

// TestTheExporterCountsEveryRequestThroughRotation sends requests to a real nginx while its log is rotated as
// logrotate does it: renamed, then reopened by a signal.
func TestTheExporterCountsEveryRequestThroughRotation(t *testing.T) {
	// The query determines the answer.
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "fail") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer service.Close()
	b := startBalancer(t, []string{service.Listener.Addr().String()})
	defer b.stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- exporter.Run(ctx, exporter.Options{StatusURL: "http://" + b.status + "/stub_status", LogPath: filepath.Join(b.dir, "access.log"),
			Poll: 20 * time.Millisecond, MaxUpstreams: 10, Listen: "127.0.0.1:0", Clock: clock.RealClock{}, Log: testr.New(t)}, func(a net.Addr) { address <- a.String() })
	}()
	url := "http://" + <-address + "/metrics"
	says := func(lines ...string) {
		t.Helper()
		var last string
		if err := until(t.Context(), "the exporter's metrics", func() (bool, error) {
			var err error
			last, err = get(t.Context(), url)
			for _, line := range lines {
				if err == nil && !strings.Contains(last, "\n"+line+"\n") {
					err = fmt.Errorf("no %s", line)
				}
			}
			return err == nil, err
		}); err != nil {
			t.Fatalf("%v in\n%s", err, last)
		}
	}
	says("nginx_up 1", "nginx_log_up 1") // it reads from here on
	const each = 200
	log := filepath.Join(b.dir, "access.log")
	for i := range 3 * each {
		if i%each == each/2 {
			if err := os.Rename(log, fmt.Sprint(log, i)); err != nil {
				t.Fatal(err)
			}
			if err := b.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			if err := until(t.Context(), "nginx has a new log", func() (bool, error) {
				_, err := os.Stat(log)
				return err == nil, err
			}); err != nil {
				t.Fatal(err)
			}
		}
		query := ""
		if i%2 == 0 {
			query = "?fail"
		}
		response, err := aside.Get("http://" + b.listen + "/" + query)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if sent := i + 1; sent%each == 0 {
			says(fmt.Sprintf(`nginx_log_requests_total{status="2xx",upstream="service"} %d`, sent/2), fmt.Sprintf(`nginx_log_requests_total{status="5xx",upstream="service"} %d`, sent/2))
		}
	}
	says(`nginx_log_request_duration_seconds_count{status="5xx",upstream="service"} 300`, `nginx_log_upstream_duration_seconds_count{upstream="service"} 600`,
		"nginx_log_lines_garbled_total 0", "nginx_connections_writing 1")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
