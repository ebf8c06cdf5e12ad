// Package servingcert maintains the serving certificate that the replicas of a program share, in a Secret, and its
// authorities, in a ConfigMap of the same name.
//
// Both objects must exist. A program that runs on many nodes should not be allowed to create Secrets, because it could
// thereby obtain the token of another ServiceAccount from the API server.
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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/selfsigned"
)

// AuthoritiesKey is the key of the authorities to trust, in the ConfigMap and in the Secret.
const AuthoritiesKey = "ca.crt"

const (
	// lookEvery is the interval between checks of the objects, and soon the interval after an error.
	lookEvery = time.Minute
	soon      = 2 * time.Second
	// tries is the number of attempts to write if another replica writes too.
	tries = 3
)

// Keeper maintains the certificate of a program.
type Keeper struct {
	// Client reads without a cache, and writes.
	Client client.Client
	// Object is the namespace and name of the Secret and of the ConfigMap.
	Object types.NamespacedName
	// Hosts are the names and addresses that the certificate must be valid for.
	Hosts []string
	// Clock is the clock.
	Clock clock.WithTicker
	// Log is the logger.
	Log logr.Logger

	serving atomic.Pointer[tls.Certificate]
}

// GetCertificate implements [tls.Config.GetCertificate]. It returns an error until there is a certificate.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Ready returns an error until there is a certificate.
func (k *Keeper) Ready(context.Context) error {
	_, err := k.GetCertificate(nil)
	return err
}

// Run maintains the certificate until ctx is done.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		pause := lookEvery
		if err := k.Keep(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error(err, "Failed to update the certificate; retrying")
			pause = soon
		}
		timer := k.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// Keep ensures once that the Secret has a valid certificate, that the ConfigMap has its authorities, and that the
// certificate is served, in this order, so that clients trust it before it is served. On an error the previous
// certificate remains.
func (k *Keeper) Keep(ctx context.Context) error {
	var pair selfsigned.Pair
	var err error
	for range tries {
		if pair, err = k.ensure(ctx); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	serving, err := pair.TLS()
	if err != nil {
		return err
	}
	for range tries {
		if err = k.publish(ctx, pair.Authorities); !apierrors.IsConflict(err) {
			break
		}
	}
	if err == nil || k.serving.Load() == nil {
		k.serving.Store(serving)
	}
	return err
}

// ensure returns the pair in the Secret. It renews the pair if necessary.
func (k *Keeper) ensure(ctx context.Context) (selfsigned.Pair, error) {
	var secret corev1.Secret
	if err := k.Client.Get(ctx, k.Object, &secret); err != nil {
		return selfsigned.Pair{}, fmt.Errorf("read Secret %s, which the manifests create empty: %w", k.Object, err)
	}
	pair := selfsigned.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey], Authorities: secret.Data[AuthoritiesKey]}
	now := k.Clock.Now()
	why := pair.Check(k.Hosts, now)
	if why == nil {
		return pair, nil
	}
	k.Log.Info("Created a new certificate", "secret", k.Object, "why", why.Error())
	pair, err := selfsigned.New(k.Hosts, pair.Authorities, now)
	if err != nil {
		return selfsigned.Pair{}, err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], secret.Data[AuthoritiesKey] = pair.Certificate, pair.Key, pair.Authorities
	if err := k.Client.Update(ctx, &secret); err != nil {
		return selfsigned.Pair{}, fmt.Errorf("write Secret %s: %w", k.Object, err)
	}
	return pair, nil
}

// publish writes the authorities to the ConfigMap.
func (k *Keeper) publish(ctx context.Context, authorities []byte) error {
	var published corev1.ConfigMap
	if err := k.Client.Get(ctx, k.Object, &published); err != nil {
		return fmt.Errorf("read ConfigMap %s, which the manifests create empty: %w", k.Object, err)
	}
	if bytes.Equal([]byte(published.Data[AuthoritiesKey]), authorities) {
		return nil
	}
	if published.Data == nil {
		published.Data = map[string]string{}
	}
	published.Data[AuthoritiesKey] = string(authorities)
	if err := k.Client.Update(ctx, &published); err != nil {
		return fmt.Errorf("write the certificate authorities to ConfigMap %s: %w", k.Object, err)
	}
	return nil
}
