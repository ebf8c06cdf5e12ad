package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// serving returns the address of an agent's metrics and probes.
func serving(t *testing.T) string {
	t.Helper()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	a := &Agent{Config: Config{ServeAddress: address, Log: logr.Discard()}, metrics: newMetrics(), health: newHealth(clock.RealClock{}, time.Minute, nil)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ends with %v", err)
		}
	})
	for end := time.Now().Add(10 * time.Second); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// get returns the status and body that a caller at an address of this computer is answered.
func get(t *testing.T, from, url string) (int, string) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestAnAgentServesMetricsAndProbes(t *testing.T) {
	address := serving(t)
	if code, text := get(t, "127.0.0.1", "http://"+address+"/healthz"); code != http.StatusOK {
		t.Errorf("health: %d %s", code, text)
	}
	if code, text := get(t, "127.0.0.1", "http://"+address+"/readyz"); code == http.StatusOK {
		t.Errorf("an agent that has not read its Migrations is ready: %s", text)
	}
	if code, text := get(t, "127.0.0.1", "http://"+address+"/metrics"); code != http.StatusOK || strings.Contains(text, "supercargo_agent_reports_total{") {
		t.Errorf("metrics: %d %s", code, text)
	}
}

// TestACallerThatKeepsConnectionsOpenCannotUseUpTheAgent, whose port every pod reaches: the kubelet is still answered.
func TestACallerThatKeepsConnectionsOpenCannotUseUpTheAgent(t *testing.T) {
	const tries, most = 200, 50
	address := serving(t)
	var open atomic.Int64
	var reading sync.WaitGroup
	for range tries {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if err := c.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
			t.Fatal(err)
		}
		reading.Go(func() {
			if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				open.Add(1)
			}
		})
	}
	if code, text := get(t, "127.0.0.2", "http://"+address+"/healthz"); code != http.StatusOK {
		t.Errorf("the kubelet is answered %d %s", code, text)
	}
	reading.Wait()
	if n := open.Load(); n == 0 || n > most {
		t.Errorf("%d of %d connections of one address are open, want some and at most %d", n, tries, most)
	}
}
