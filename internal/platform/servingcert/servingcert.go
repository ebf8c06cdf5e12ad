// Package servingcert keeps the certificate with which several replicas of a program serve, and
// which all of them share, in a Secret, and whom to trust in a ConfigMap beside it.
//
// Both objects must be there: a program that runs on many nodes best has no right to make
// Secrets, with which it could have the API server fill in the token of another account.
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

// AuthoritiesKey is the key, in the ConfigMap and in the Secret, of the authorities to trust.
const AuthoritiesKey = "ca.crt"

const (
	// lookEvery is how often the objects are looked at, and soon after something went wrong.
	lookEvery = time.Minute
	soon      = 2 * time.Second
	// tries is how often in a row it is tried to write what another replica writes too.
	tries = 3
)

// Keeper keeps the certificate of a program.
type Keeper struct {
	// Client reads past any cache, and writes.
	Client client.Client
	// Object is the namespace and the name of the Secret, and of the ConfigMap.
	Object types.NamespacedName
	// Hosts are the names and addresses that the certificate is for.
	Hosts []string
	// Clock tells the time.
	Clock clock.WithTicker
	// Log takes what is worth a line.
	Log logr.Logger

	serving atomic.Pointer[tls.Certificate]
}

// GetCertificate is for a TLS server. It returns an error as long as there is none.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("the certificate is not there yet")
}

// Ready returns an error as long as there is no certificate.
func (k *Keeper) Ready(context.Context) error {
	_, err := k.GetCertificate(nil)
	return err
}

// Run keeps the certificate until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		pause := lookEvery
		if err := k.Keep(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error(err, "The certificate is not as it is to be: it is tried again")
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

// Keep sees once that the Secret has a good certificate, that the ConfigMap has its
// authorities, and that it is served, in this order: clients trust it before it is shown. An
// error leaves what was served.
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

// ensure returns what the Secret has, once that is good.
func (k *Keeper) ensure(ctx context.Context) (selfsigned.Pair, error) {
	var secret corev1.Secret
	if err := k.Client.Get(ctx, k.Object, &secret); err != nil {
		return selfsigned.Pair{}, fmt.Errorf("read Secret %s, which the manifests have, with nothing in it: %w", k.Object, err)
	}
	pair := selfsigned.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey], Authorities: secret.Data[AuthoritiesKey]}
	now := k.Clock.Now()
	why := pair.Check(k.Hosts, now)
	if why == nil {
		return pair, nil
	}
	k.Log.Info("A new certificate is made", "secret", k.Object, "why", why.Error())
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

// publish has the ConfigMap say whom to trust.
func (k *Keeper) publish(ctx context.Context, authorities []byte) error {
	var published corev1.ConfigMap
	if err := k.Client.Get(ctx, k.Object, &published); err != nil {
		return fmt.Errorf("read ConfigMap %s, which the manifests have, with nothing in it: %w", k.Object, err)
	}
	if bytes.Equal([]byte(published.Data[AuthoritiesKey]), authorities) {
		return nil
	}
	if published.Data == nil {
		published.Data = map[string]string{}
	}
	published.Data[AuthoritiesKey] = string(authorities)
	if err := k.Client.Update(ctx, &published); err != nil {
		return fmt.Errorf("say in ConfigMap %s whom to trust: %w", k.Object, err)
	}
	return nil
}
