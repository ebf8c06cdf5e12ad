package guard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// served returns how many of the connections that one address keeps open are answered.
func served(t *testing.T, most, tries int) (answered int) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := Server{Listener: listener, Handler: http.NotFoundHandler(), MostOneAddress: most, Log: logr.Discard()}
	go func() { ended <- s.Serve(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended with %v", err)
		}
	}()
	for range tries {
		c, err := net.DialTimeout("tcp", listener.Addr().String(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		// Writing or reading fails if the server has closed the connection.
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			continue
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			answered++
		}
	}
	return answered
}

func TestConnectionsOfOneAddressAreLimited(t *testing.T) {
	for _, tc := range []struct{ most, want int }{{0, mostOneAddress}, {4, 4}, {60, 60}} {
		if got := served(t, tc.most, tc.want+10); got != tc.want {
			t.Errorf("with a limit of %d, %d connections are answered, want %d", tc.most, got, tc.want)
		}
	}
}
