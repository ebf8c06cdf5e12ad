package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
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
	// wrong, and uninstalled while there is no configuration.
	lookEvery   = time.Minute
	soon        = time.Second
	uninstalled = 5 * time.Second
	// tries is how often in a row it is tried to write what another replica writes too.
	tries = 3
)

// authoritiesKey is where the Secret has the authorities.
const authoritiesKey = "ca.crt"

// Keeper keeps the certificate of a webhook for as long as the webhook is installed: while
// its ValidatingWebhookConfiguration does not exist, the keeper writes nothing. So that
// object alone turns the webhook on, and no argument of the program that a manifest or a
// patch may drop. Each replica of the webhook's program has a keeper; they share the Secret.
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
	idle    atomic.Bool // the last look found nothing to serve
	once    sync.Once
	started chan struct{}
}

// Started returns a channel that is closed when the first certificate is there.
func (k *Keeper) Started() <-chan struct{} {
	k.once.Do(func() { k.started = make(chan struct{}) })
	return k.started
}

// Ready is a readiness check: there is a certificate, or the webhook is not installed.
func (k *Keeper) Ready(*http.Request) error {
	if k.idle.Load() {
		return nil
	}
	_, err := k.GetCertificate(nil)
	return err
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
		switch err := k.Keep(ctx); {
		case err != nil && ctx.Err() == nil:
			k.Log.Error(err, "The certificate of the webhook is not as it is to be: it is tried again")
			if !k.idle.Load() {
				pause = soon
			}
		case k.idle.Load():
			pause = uninstalled
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
// authorities, and that it is served, in this order. An error leaves what was served. If
// there is no configuration, Keep does nothing. It does nothing either, but returns an error,
// if it may not read the configuration: rights from before the configuration was looked for
// must not keep the rest of the program from being ready.
func (k *Keeper) Keep(ctx context.Context) error {
	installed, err := k.installed(ctx)
	if !installed {
		return err
	}
	var pair Pair
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
		k.serve(serving)
	}
	return injected
}

// serve has a certificate served.
func (k *Keeper) serve(c *tls.Certificate) {
	k.Started() // makes the channel
	if k.serving.Swap(c) == nil {
		close(k.started)
	}
}

// installed reports whether there is a configuration, and notes if there is none.
func (k *Keeper) installed(ctx context.Context) (bool, error) {
	err := k.Live.Get(ctx, types.NamespacedName{Name: k.Configuration}, &admissionv1.ValidatingWebhookConfiguration{})
	switch {
	case err == nil:
		if k.idle.Swap(false) {
			k.Log.Info("The webhook is installed: it is served", "configuration", k.Configuration)
		}
		return true, nil
	case apierrors.IsNotFound(err):
		if !k.idle.Swap(true) {
			k.Log.Info("The webhook is not installed: it is served when its ValidatingWebhookConfiguration exists", "configuration", k.Configuration)
		}
		return false, nil
	case apierrors.IsForbidden(err):
		k.idle.Store(true)
	}
	return false, fmt.Errorf("look for ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
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
