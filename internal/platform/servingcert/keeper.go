// Package servingcert maintains the serving certificate that the replicas of a program share in a Secret, and the
// authorities that its clients trust.
//
// Each certificate has its own authority, whose key is discarded at once, so nobody can sign another one. A new
// certificate is created when a third of the lifetime of the old one is left. The bundle that clients trust then
// contains both authorities, so it does not matter which of several replicas serves the new certificate first.
//
// A [Pair] is a certificate with its key and authorities, a [Secret] is where replicas share it, and a [Keeper] renews
// it there and serves it.
package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/poll"
)

const (
	// checkEvery is the interval between checks of the objects, and retryAfter the interval after an error.
	checkEvery = time.Minute
	retryAfter = 2 * time.Second
)

// Keeper maintains the certificate of one replica of a program. Its methods are safe for concurrent use, but
// [Keeper.Ensure], [Keeper.Keep] and [Keeper.Run] must not be called at the same time.
type Keeper struct {
	// Secret is where the replicas share the certificate.
	Secret Secret
	// Publish writes the authorities in the data of the Secret where clients find them.
	Publish func(ctx context.Context, data map[string][]byte) error
	// InMemory says what to do if the namespace of the Secret does not exist or access to the Secret is forbidden: keep
	// a certificate of this replica alone, which is enough for a single replica.
	InMemory bool
	// Changed, which may be nil, is called after another certificate is served.
	Changed func()
	// Clock is the clock.
	Clock clock.WithTicker
	// Log is the logger.
	Log logr.Logger

	served atomic.Pointer[served]
	alone  bool // the Secret cannot be used, and this was logged
}

// served is the served pair, and what it is for a TLS server.
type served struct {
	pair Pair
	tls  *tls.Certificate
}

// GetCertificate implements [tls.Config.GetCertificate]. It returns an error until there is a certificate.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s := k.served.Load(); s != nil {
		return s.tls, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Served returns the pair that is served, which is empty until there is one.
func (k *Keeper) Served() Pair {
	if s := k.served.Load(); s != nil {
		return s.pair
	}
	return Pair{}
}

// Ready returns an error until there is a certificate.
func (k *Keeper) Ready(context.Context) error {
	_, err := k.GetCertificate(nil)
	return err
}

// Run maintains the certificate until ctx is done.
func (k *Keeper) Run(ctx context.Context) error {
	poll.Repeat(ctx, k.Clock, checkEvery, retryAfter, k.Keep, func(err error) {
		if err != nil {
			k.Log.Error(err, "Failed to update the certificate; retrying")
		}
	})
	return ctx.Err()
}

// Keep ensures once that the Secret has a valid certificate, that its authorities are published, and that the
// certificate is served, in this order, so that clients trust it before it is served. On an error the previous
// certificate remains; without a previous one, the certificate is served although its authorities are not published.
// If the Secret has no hosts, and therefore no certificate, Keep only publishes.
func (k *Keeper) Keep(ctx context.Context) error {
	data, err := k.Ensure(ctx)
	if err != nil {
		return err
	}
	err = k.Publish(ctx, data)
	if len(k.Secret.Hosts) == 0 || err != nil && k.served.Load() != nil {
		return err
	}
	return errors.Join(err, k.Serve(PairOf(data)))
}

// Serve makes a pair the one that is served.
func (k *Keeper) Serve(p Pair) error {
	certificate, err := p.TLS()
	if err != nil {
		return err
	}
	before := k.served.Swap(&served{pair: p, tls: certificate})
	if k.Changed != nil && (before == nil || !bytes.Equal(before.pair.Certificate, p.Certificate)) {
		k.Changed()
	}
	return nil
}

// Ensure returns the data of the Secret with a valid pair. It neither publishes nor serves the pair.
func (k *Keeper) Ensure(ctx context.Context) (map[string][]byte, error) {
	now := k.Clock.Now()
	data, err := k.Secret.Ensure(ctx, now)
	if k.InMemory && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		return k.ensureInMemory(now, err)
	}
	return data, err
}

// ensureInMemory does the same for this replica alone.
func (k *Keeper) ensureInMemory(now time.Time, why error) (map[string][]byte, error) {
	if !k.alone {
		k.Log.Error(why, "Failed to use the Secret of the certificate, keeping a certificate in memory: run one replica, or grant it access to the Secret", "secret", k.Secret.Name)
		k.alone = true
	}
	pair := k.Served()
	if pair.Check(k.Secret.Hosts, now) != nil {
		var err error
		if pair, err = New(k.Secret.Hosts, pair.Authorities, now); err != nil {
			return nil, err
		}
	}
	data := map[string][]byte{}
	pair.write(data)
	return data, nil
}

// ToConfigMap returns a function for [Keeper.Publish] that writes the authorities to a ConfigMap, which must exist.
func ToConfigMap(c client.Client, name types.NamespacedName) func(context.Context, map[string][]byte) error {
	return func(ctx context.Context, data map[string][]byte) error {
		return retry.OnError(attempts, apierrors.IsConflict, func() error { return publish(ctx, c, name, data[AuthoritiesKey]) })
	}
}

func publish(ctx context.Context, c client.Client, name types.NamespacedName, authorities []byte) error {
	var published corev1.ConfigMap
	if err := c.Get(ctx, name, &published); err != nil {
		return fmt.Errorf("read ConfigMap %s, which the manifests create empty: %w", name, err)
	}
	if published.Data[AuthoritiesKey] == string(authorities) {
		return nil
	}
	if published.Data == nil {
		published.Data = map[string]string{}
	}
	published.Data[AuthoritiesKey] = string(authorities)
	if err := c.Update(ctx, &published); err != nil {
		return fmt.Errorf("write the certificate authorities to ConfigMap %s: %w", name, err)
	}
	return nil
}
