package dashboard

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Page is a dashboard page that is being served to clients that present its token.
type Page struct {
	Server *Server
	// Address is the URL with the token.
	Address string
	// Serving is cancelled when serving ends, with the reason as its cause.
	Serving context.Context
	// End stops serving.
	End func()
}

// ServePage serves an empty page at a host:port until ctx ends or End is called. Requests must name one of the
// hosts, in lower case, or an address. An error is about listening at the address.
func ServePage(ctx context.Context, address string, hosts []string) (*Page, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	serving, cancel := context.WithCancelCause(ctx)
	token := rand.Text()
	server := NewServer(ServerOptions{Token: token, Hosts: hosts, Done: serving.Done()})
	httpServer := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10}
	served := make(chan struct{})
	go func() {
		defer close(served)
		cancel(fmt.Errorf("serve the page: %w", httpServer.Serve(listener)))
	}()
	page := url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/", RawQuery: url.Values{"token": {token}}.Encode()}
	return &Page{Server: server, Address: page.String(), Serving: serving, End: func() {
		cancel(nil)
		_ = httpServer.Close() // the streams end with serving, so nothing is lost
		<-served
	}}, nil
}
