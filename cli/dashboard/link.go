package dashboard

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/internal/platform/podwire"
)

// Link is the connection to the API server of a cluster.
//
// [Run] probes it, because a watch alone does not tell for most of a minute that nobody answers at its other end. While
// a probe fails, lists and watches wait: none fails again and again, with pauses that grow to half a minute and would
// outlast the recovery.
type Link struct {
	client client.WithWatch
	probe  rest.Interface
	dialer *connrotation.Dialer
	server string

	mu       sync.Mutex
	open     chan struct{} // closed while lists and watches may be sent
	isOpen   bool
	answered time.Time
	failure  connection.Failure
	hurry    chan struct{} // has one element when the next probe is urgent
}

// Connect returns a link for all kinds of the dashboard. It sends no request. The errors are about the configuration.
func Connect(config *rest.Config) (*Link, error) {
	scheme, err := Kinds()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connection.Patience, KeepAlive: 30 * time.Second}).DialContext
	}
	l := &Link{dialer: connrotation.NewDialer(dial), server: config.Host, open: make(chan struct{}), hurry: make(chan struct{}, 1)}
	config.Dial = l.dialer.DialContext
	if l.client, err = client.NewWithWatch(podwire.Wrap(config), client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	probe, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	l.probe = probe.RESTClient()
	return l, nil
}

// watch probes the API server until ctx ends.
func (l *Link) watch(ctx context.Context) {
	for ctx.Err() == nil {
		code := 0
		asked, cancel := context.WithTimeout(ctx, connection.Patience)
		err := l.probe.Get().AbsPath("/readyz").MaxRetries(0).Do(asked).StatusCode(&code).Error()
		cancel()
		if ctx.Err() != nil {
			return
		}
		l.probed(time.Now(), connection.Probed(code, err))
		timer := time.NewTimer(connection.Every)
		select {
		case <-timer.C:
		case <-l.hurry:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// probed notes what a probe found. A server that has not answered for long gets new connections: nothing else ends one
// whose other end has vanished.
func (l *Link) probed(now time.Time, f connection.Failure) {
	l.mu.Lock()
	l.failure = f
	gone := false
	switch f.Kind {
	case connection.FailureNone, connection.NotReady:
		if f.Kind == connection.FailureNone {
			l.answered = now
		}
		if !l.isOpen {
			l.isOpen = true
			close(l.open)
		}
	default:
		if l.isOpen {
			l.isOpen, l.open = false, make(chan struct{})
		}
		gone = now.Sub(l.answered) > connection.Unanswered
	}
	l.mu.Unlock()
	if gone {
		l.dialer.CloseAll()
	}
}

// wait waits until requests may be sent. It returns the error of ctx if that ends before.
func (l *Link) wait(ctx context.Context) error {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// suspect asks for a probe soon, because a request got no answer.
func (l *Link) suspect() {
	select {
	case l.hurry <- struct{}{}:
	default:
	}
}

// observe returns what is known about the API server.
func (l *Link) observe(now time.Time) *connection.Observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &connection.Observation{Now: now, Server: l.server, Answered: l.answered, Failure: l.failure}
}
