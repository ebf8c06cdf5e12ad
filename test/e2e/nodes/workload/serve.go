package workload

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Serve answers all requests at an address, for probes, on plain TCP, because CRIU cannot dump an MPTCP
// socket. It ends the program with that name if it cannot listen.
func Serve(program, address string) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	listener, err := plain.Listen(context.Background(), "tcp", address)
	if err == nil {
		server := http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		err = server.Serve(listener)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
	os.Exit(2)
}
