package process

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

func TestAReservedPortIsKeptForAListener(t *testing.T) {
	port, release, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel assigns to other sockets only free ports for which this bind would succeed.
	other, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(other) }()
	address := &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(other, address); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("binding the reserved port gives %v, want that it is in use", err)
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatalf("listen on the reserved port: %v", err)
	}
	defer listener.Close()
	release()
	conn, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatalf("connect after the release: %v", err)
	}
	_ = conn.Close()
}
