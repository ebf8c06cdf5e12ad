package app

import (
	"context"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/platform/servingcert"
)

// certificate is the serving certificate that all replicas share, in the form in which an
// aggregated API server takes it. It notifies the server when the certificate changes.
type certificate struct {
	*servingcert.Keeper

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = (*certificate)(nil)

// newCertificate returns the certificate in a Secret. A replica that cannot use the Secret has
// one of its own.
func newCertificate(secret servingcert.Secret, clock clock.WithTicker) *certificate {
	c := &certificate{}
	c.Keeper = &servingcert.Keeper{Secret: secret, InMemory: true, Changed: c.notify, Clock: clock, Log: secret.Log}
	return c
}

// start serves the certificate before clients trust it, since the server does not start
// without one.
func (c *certificate) start(ctx context.Context) error {
	data, err := c.Ensure(ctx)
	if err != nil {
		return err
	}
	return c.Serve(servingcert.PairOf(data))
}

// Name implements [dynamiccertificates.CertKeyContentProvider].
func (c *certificate) Name() string { return "the certificate in Secret " + c.Secret.Name.String() }

// CurrentCertKeyContent implements [dynamiccertificates.CertKeyContentProvider].
func (c *certificate) CurrentCertKeyContent() (chain, key []byte) {
	pair := c.Served()
	return pair.Certificate, pair.Key
}

// AddListener implements [dynamiccertificates.Notifier].
func (c *certificate) AddListener(l dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
}

func (c *certificate) notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.listeners {
		l.Enqueue()
	}
}
