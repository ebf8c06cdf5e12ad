//go:build unix && !linux

package process

import (
	"fmt"
	"net"
)

// FreePort finds a port of 127.0.0.1 for a child to listen on. Another process may get the port
// before the child listens.
func FreePort() (port int, release func(), err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, nil, fmt.Errorf("find a free port: %w", err)
	}
	port = listener.Addr().(*net.TCPAddr).Port
	return port, func() {}, listener.Close()
}
