package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// lookEvery is how often the Secret is looked at; soon is that while something is
	// wrong.
	lookEvery = time.Minute
	soon      = time.Second
	// tries is how often in a row it is tried to write what another replica writes too.
	tries = 3
)

// authoritiesKey is where the Secret has the authorities.
const authoritiesKey = "ca.crt"

// Keeper keeps the certificate of a webhook. Each replica of the webhook's program has
// one; they share the Secret.
type Keeper struct {
	// Client writes, and Live reads past any cache.
	Client client.Client
	Live   client.Reader
	// Clock tells the time.
	Clock clock.WithTicker
	// Secret is where the certificate is kept. It is made if it is not there.
	Secret types.NamespacedName
	// Configuration is the name of the ValidatingWebhookConfiguration to whose webhooks
	// the authorities are given.
	Configuration string
	// Hosts are the names and addresses under which the API server calls the webhook.
	Hosts []string
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

// NeedLeaderElection says that every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificate until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		pause := lookEvery
		if err := k.Keep(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error(err, "The certificate of the webhook is not as it is to be: it is tried again")
			pause = soon
		}
		timer := k.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Keep sees once that the Secret has a good certificate, that the configuration has its
// authorities, and that it is served, in this order. An error leaves what was served.
func (k *Keeper) Keep(ctx context.Context) error {
	var pair Pair
	var err error
	for range tries {
		pair, err = k.ensure(ctx)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
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
	injected := k.inject(ctx, pair.Authorities)
	if injected == nil || k.serving.Load() == nil {
		k.serving.Store(serving)
	}
	return injected
}

// ensure returns what the Secret has, once that is good.
func (k *Keeper) ensure(ctx context.Context) (Pair, error) {
	var secret corev1.Secret
	err := k.Live.Get(ctx, k.Secret, &secret)
	if client.IgnoreNotFound(err) != nil {
		return Pair{}, fmt.Errorf("read Secret %s: %w", k.Secret, err)
	}
	missing := err != nil
	pair := Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey], Authorities: secret.Data[authoritiesKey]}
	now := k.Clock.Now()
	why := pair.Check(k.Hosts, now)
	if why == nil {
		return pair, nil
	}
	if pair, err = New(k.Hosts, pair.Authorities, now); err != nil {
		return Pair{}, err
	}
	data := map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key, authoritiesKey: pair.Authorities}
	if missing {
		secret = corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.Secret.Namespace, Name: k.Secret.Name}, Type: corev1.SecretTypeTLS, Data: data,
		}
		err = k.Client.Create(ctx, &secret)
	} else {
		k.Log.Info("A new certificate is made for the webhook", "secret", k.Secret, "why", why.Error())
		secret.Data = data
		err = k.Client.Update(ctx, &secret)
	}
	if err != nil {
		return Pair{}, fmt.Errorf("write Secret %s: %w", k.Secret, err)
	}
	return pair, nil
}

// inject gives the authorities to the webhooks of the configuration.
func (k *Keeper) inject(ctx context.Context, authorities []byte) error {
	var configuration admissionv1.ValidatingWebhookConfiguration
	if err := k.Live.Get(ctx, types.NamespacedName{Name: k.Configuration}, &configuration); err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	before, changed := configuration.DeepCopy(), false
	for i := range configuration.Webhooks {
		if c := &configuration.Webhooks[i].ClientConfig; !bytes.Equal(c.CABundle, authorities) {
			c.CABundle, changed = authorities, true
		}
	}
	if !changed {
		return nil
	}
	if err := k.Client.Patch(ctx, &configuration, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the authorities into ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	return nil
}
