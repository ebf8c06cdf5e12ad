package app

import (
	"bytes"
	"context"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/selfsigned"
)

// certificate is the serving certificate that all replicas share: the first replica creates
// it, and the others read it from a Secret. It notifies the server when the certificate
// changes. All methods are safe for concurrent use.
type certificate struct {
	client client.Client
	live   client.Reader // bypasses any cache
	secret types.NamespacedName
	hosts  []string
	clock  clock.PassiveClock
	log    logr.Logger

	mu        sync.Mutex
	pair      selfsigned.Pair // the pair that is served
	alone     bool            // the Secret cannot be used, and this was logged
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = (*certificate)(nil)

// Name implements [dynamiccertificates.CertKeyContentProvider].
func (c *certificate) Name() string { return "the certificate in Secret " + c.secret.String() }

// CurrentCertKeyContent implements [dynamiccertificates.CertKeyContentProvider].
func (c *certificate) CurrentCertKeyContent() (chain, key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair.Certificate, c.pair.Key
}

// AddListener implements [dynamiccertificates.Notifier].
func (c *certificate) AddListener(l dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
}

// serve makes p the served certificate.
func (c *certificate) serve(p selfsigned.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := !bytes.Equal(c.pair.Certificate, p.Certificate)
	c.pair = p
	if changed {
		for _, l := range c.listeners {
			l.Enqueue()
		}
	}
}

// look returns the certificate to serve, with the authorities to trust, after storing it in
// the Secret. If the namespace of the Secret does not exist, or access to it is forbidden, it
// returns a certificate of this replica alone, which is enough for a single replica.
func (c *certificate) look(ctx context.Context) (selfsigned.Pair, error) {
	secret := selfsigned.Secret{Client: c.client, Live: c.live, Name: c.secret, Hosts: c.hosts, Log: c.log}
	data, err := secret.Keep(ctx, c.clock.Now(), nil)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return c.own(err)
	}
	if err != nil {
		return selfsigned.Pair{}, err
	}
	return selfsigned.PairOf(data), nil
}

// own returns a certificate for this replica alone and renews it in time.
func (c *certificate) own(why error) (selfsigned.Pair, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.alone {
		c.log.Error(why, "Failed to use the Secret of the certificate, keeping a certificate in memory: run one replica, or grant it access to the Secret", "secret", c.secret)
		c.alone = true
	}
	now := c.clock.Now()
	if c.pair.Check(c.hosts, now) == nil {
		return c.pair, nil
	}
	return selfsigned.New(c.hosts, c.pair.Authorities, now)
}
