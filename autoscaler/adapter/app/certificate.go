package app

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/selfsigned"
)

// certificateTries is how often in a row it is tried to write what another replica writes too.
const certificateTries = 3

// certificate is the one that all replicas serve with: the first makes it, and the others find
// it in a Secret. The server is told when a new one is to be served. All methods are safe for
// concurrent use.
type certificate struct {
	client client.Client
	live   client.Reader // past any cache
	secret types.NamespacedName
	hosts  []string
	clock  clock.PassiveClock
	log    logr.Logger

	mu        sync.Mutex
	pair      selfsigned.Pair // that is served
	alone     bool            // the Secret cannot be used, which was said
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

// serve has a certificate served.
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

// look returns the certificate that is to be served, with the authorities that are to be
// trusted, once it is in the Secret. Where there is no namespace for the Secret, or no right to
// it, this replica keeps one of its own: it serves alone as well as ever.
func (c *certificate) look(ctx context.Context) (selfsigned.Pair, error) {
	var err error
	for range certificateTries {
		var pair selfsigned.Pair
		if pair, err = c.shared(ctx); err == nil {
			return pair, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return selfsigned.Pair{}, err
	}
	return c.own(err)
}

// own returns the certificate of this replica alone, which is made anew in time.
func (c *certificate) own(why error) (selfsigned.Pair, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.alone {
		c.log.Error(why, "The certificate is kept in memory: run one replica, or let it use the Secret", "secret", c.secret)
		c.alone = true
	}
	now := c.clock.Now()
	if c.pair.Check(c.hosts, now) == nil {
		return c.pair, nil
	}
	return selfsigned.New(c.hosts, c.pair.Authorities, now)
}

// shared returns what the Secret has, once that is good.
func (c *certificate) shared(ctx context.Context) (selfsigned.Pair, error) {
	var secret corev1.Secret
	err := c.live.Get(ctx, c.secret, &secret)
	if client.IgnoreNotFound(err) != nil {
		return selfsigned.Pair{}, fmt.Errorf("read Secret %s: %w", c.secret, err)
	}
	missing := err != nil
	pair := selfsigned.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey], Authorities: secret.Data[authoritiesKey]}
	now := c.clock.Now()
	why := pair.Check(c.hosts, now)
	if why == nil {
		return pair, nil
	}
	if pair, err = selfsigned.New(c.hosts, pair.Authorities, now); err != nil {
		return selfsigned.Pair{}, err
	}
	data := maps.Clone(secret.Data)
	if data == nil {
		data = map[string][]byte{}
	}
	data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[authoritiesKey] = pair.Certificate, pair.Key, pair.Authorities
	if missing {
		err = c.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.secret.Namespace, Name: c.secret.Name}, Type: corev1.SecretTypeTLS, Data: data,
		})
	} else {
		c.log.Info("A new certificate is made", "secret", c.secret, "why", why.Error())
		secret.Data = data
		err = c.client.Update(ctx, &secret)
	}
	if err != nil {
		return selfsigned.Pair{}, fmt.Errorf("write Secret %s: %w", c.secret, err)
	}
	return pair, nil
}
