// Package certificate keeps the certificate with which a webhook serves in
// a Secret, and its authority in the configuration by which the API server finds the
// webhook.
package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/poll"
	"supercargo.dev/supercargo/internal/platform/selfsigned"
)

const (
	// secretEvery is how often the secret of the URL is replaced. Who evicts sees the URL
	// in the error when a webhook with failurePolicy Fail cannot be reached, so a secret
	// must not be good for long: it is known for twice this time at most.
	secretEvery = time.Hour
	// rereadEvery bounds how often callers with a wrong secret make a replica read the
	// Secret.
	rereadEvery = time.Second
	// lookEvery is how often the Secret is looked at; soon is that while something is
	// wrong, and uninstalled while there is no configuration.
	lookEvery   = time.Minute
	soon        = time.Second
	uninstalled = 5 * time.Second
)

// The keys of the Secret beside those of the certificate: the secret of the URL, the one before it,
// and since when that is replaced, as RFC 3339.
const (
	secretKey       = "url-secret"
	secretBeforeKey = "url-secret-before"
	secretSinceKey  = "url-secret-since"
)

// Keeper keeps the certificate of a webhook, and the secret behind the path of its URL by
// which it knows the API server, for as long as the webhook is installed: while
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
	// Hosts are the names and addresses under which the API server calls the webhook. If
	// there are none, somebody else keeps the certificate and tells the API server what to
	// trust, and only the secret is kept here.
	Hosts []string
	// Path is before the secret in the URL, such as "/evictions".
	Path string
	// Log takes what is worth a line.
	Log logr.Logger

	serving atomic.Pointer[tls.Certificate]
	idle    atomic.Bool // the last look found nothing to serve
	once    sync.Once
	started chan struct{}

	known   atomic.Pointer[urlSecret]
	reading singleflight.Group
	reread  time.Time // when the Secret was last read for a wrong secret; in reading alone
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
		if !poll.Wait(ctx, k.Clock, pause, nil) {
			return nil
		}
	}
}

// Keep sees once that the Secret has a good certificate and a secret for the URL, that the
// configuration has its authorities and that URL, and that it is served, in this order. An error leaves what was served. If
// there is no configuration, Keep does nothing. It does nothing either, but returns an error,
// if it may not read the configuration: rights from before the configuration was looked for
// must not keep the rest of the program from being ready.
func (k *Keeper) Keep(ctx context.Context) error {
	installed, err := k.installed(ctx)
	if !installed {
		return err
	}
	shared := selfsigned.Secret{Client: k.Client, Live: k.Live, Name: k.Secret, Hosts: k.Hosts, Log: k.Log}
	now := k.Clock.Now()
	data, err := shared.Keep(ctx, now, func(data map[string][]byte) bool { return renewSecret(data, now) })
	if err != nil {
		return err
	}
	// Both the secret that the API server uses and the next are good from here on.
	k.known.Store(secretOf(data))
	if len(k.Hosts) == 0 {
		return k.inject(ctx, nil, k.known.Load().now)
	}
	pair := selfsigned.PairOf(data)
	serving, err := pair.TLS()
	if err != nil {
		return err
	}
	injected := k.inject(ctx, pair.Authorities, k.known.Load().now)
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

// inject gives the authorities, unless there are none, and the URL with the secret to the
// webhooks of the configuration.
func (k *Keeper) inject(ctx context.Context, authorities []byte, secret string) error {
	var configuration admissionv1.ValidatingWebhookConfiguration
	if err := k.Live.Get(ctx, types.NamespacedName{Name: k.Configuration}, &configuration); err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	before := configuration.DeepCopy()
	for i := range configuration.Webhooks {
		c := &configuration.Webhooks[i].ClientConfig
		if authorities != nil {
			c.CABundle = authorities
		}
		if err := setPath(c, k.Path+"/"+secret); err != nil {
			return fmt.Errorf("webhook %s of ValidatingWebhookConfiguration %s: %w", configuration.Webhooks[i].Name, k.Configuration, err)
		}
	}
	if equality.Semantic.DeepEqual(before, &configuration) {
		return nil
	}
	if err := k.Client.Patch(ctx, &configuration, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write how the webhook is called into ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	return nil
}

// setPath sets the path under which the API server calls a webhook.
func setPath(c *admissionv1.WebhookClientConfig, path string) error {
	switch {
	case c.Service != nil:
		c.Service.Path = &path
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil {
			return errors.New("clientConfig.url is no URL: correct it") // not what it is: it may have a secret
		}
		u.Path = path
		text := u.String()
		c.URL = &text
	}
	return nil
}
