package process

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// FreePort finds a port of 127.0.0.1 for a child to listen on, and reserves it until release is
// called, which may be after the child listens: Linux lets two sockets with SO_REUSEADDR share an
// address as long as only one of them listens, and does not assign such a port to others that ask
// for any free port.
func FreePort() (port int, release func(), err error) {
	fail := func(err error) (int, func(), error) { return 0, nil, fmt.Errorf("find a free port: %w", err) }
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	address := &syscall.SockaddrInet4{Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}
	err = errors.Join(
		syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(socket, address))
	if err != nil {
		return fail(errors.Join(err, syscall.Close(socket)))
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		return fail(errors.Join(err, syscall.Close(socket)))
	}
	return bound.(*syscall.SockaddrInet4).Port, func() { _ = syscall.Close(socket) }, nil
}
