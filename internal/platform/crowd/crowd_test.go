package crowd

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
)

// patience is how long a connection may stay unchanged before a test fails.
const patience = 20 * time.Second

// TestTooManyConnectionsAreClosed uses a limit per address below the total, so that another address is accepted while
// one has reached its limit.
func TestTooManyConnectionsAreClosed(t *testing.T) {
	said := make(chan string, 10)
	log := funcr.New(func(_, args string) { said <- args }, funcr.Options{})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most, mostOne = 5, 3
	c := Limit(listener, most, mostOne, log)
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			connection, err := c.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- connection
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		connection, err := d.DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		return connection
	}
	in := func(from string) net.Conn {
		t.Helper()
		dial(from)
		select {
		case connection := <-accepted:
			return connection
		case <-time.After(patience):
			t.Fatalf("a connection from %s is not taken", from)
			return nil
		}
	}
	out := func(from string) {
		t.Helper()
		connection := dial(from)
		if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := connection.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("one more connection from %s is taken: %v", from, err)
		}
	}
	first := in("127.0.0.1")
	for range mostOne - 1 {
		in("127.0.0.1")
	}
	out("127.0.0.1")
	select {
	case text := <-said:
		if !strings.Contains(text, "3 connections from this address") || !strings.Contains(text, `"from"="127.0.0.1"`) {
			t.Errorf("the log says %s", text)
		}
	case <-time.After(patience):
		t.Fatal("nothing is said of a connection that was closed")
	}
	in("127.0.0.2") // another address
	in("127.0.0.2")
	out("127.0.0.3")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // closing twice must not make room for two
	in("127.0.0.3")
	out("127.0.0.4")
}
