// Package certificate manages the certificate of a webhook in a Secret, and its authority in the
// configuration through which the API server calls the webhook.
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
	// secretEvery is how often the secret of the URL is replaced. Clients that evict see the URL
	// in the error when a webhook with failurePolicy Fail is unreachable, so a secret must not be
	// valid for long: it is accepted for at most twice this time.
	secretEvery = time.Hour
	// rereadEvery is the minimum time between two reads of the Secret that callers with a wrong
	// secret cause in a replica.
	rereadEvery = time.Second
	// lookEvery is the time between two checks of the Secret; soon is that after an error, and
	// uninstalled that without a configuration.
	lookEvery   = time.Minute
	soon        = time.Second
	uninstalled = 5 * time.Second
)

// The keys of the Secret besides those of the certificate: the secret of the URL, the previous
// one, and the time of its replacement in RFC 3339.
const (
	secretKey       = "url-secret"
	secretBeforeKey = "url-secret-before"
	secretSinceKey  = "url-secret-since"
)

// Keeper manages the certificate of a webhook, and the secret in the path of its URL that
// identifies the API server. While the ValidatingWebhookConfiguration of the webhook does not
// exist, the keeper writes nothing. So that object alone turns the webhook on, and not an
// argument of the program, which a manifest or a patch may drop. Each replica of the webhook's
// program has a keeper; they share the Secret.
type Keeper struct {
	// Client writes, and Live reads without a cache.
	Client client.Client
	Live   client.Reader
	// Clock is the current time.
	Clock clock.WithTicker
	// Secret is the Secret of the certificate. It is created if it does not exist.
	Secret types.NamespacedName
	// Configuration is the name of the ValidatingWebhookConfiguration whose webhooks get the
	// authorities.
	Configuration string
	// Hosts are the names and addresses at which the API server calls the webhook. If there are
	// none, others manage the certificate and its authority, and the keeper only manages the
	// secret.
	Hosts []string
	// Path comes before the secret in the URL, such as "/evictions".
	Path string
	// Log receives log lines.
	Log logr.Logger

	serving atomic.Pointer[tls.Certificate]
	idle    atomic.Bool // the webhook is not installed
	once    sync.Once
	started chan struct{}

	known   atomic.Pointer[urlSecret]
	reading singleflight.Group
	reread  time.Time // when the Secret was last read because of a wrong secret; used only in reading
}

// Started returns a channel that is closed when the first certificate is available.
func (k *Keeper) Started() <-chan struct{} {
	k.once.Do(func() { k.started = make(chan struct{}) })
	return k.started
}

// Ready is a readiness check. It succeeds if there is a certificate, or if the webhook is not
// installed.
func (k *Keeper) Ready(*http.Request) error {
	if k.idle.Load() {
		return nil
	}
	_, err := k.GetCertificate(nil)
	return err
}

// GetCertificate is for a tls.Config. It returns an error until there is a certificate.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// NeedLeaderElection returns false: every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start manages the certificate until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		pause := lookEvery
		switch err := k.Keep(ctx); {
		case err != nil && ctx.Err() == nil:
			k.Log.Error(err, "Failed to update the certificate of the webhook; retrying")
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

// Keep ensures once that the Secret has a valid certificate and a secret for the URL, that the
// configuration has its authorities and that URL, and that the certificate is served, in this
// order. On an error the served certificate does not change. Without a configuration Keep does
// nothing. If it may not read the configuration, it only returns an error: permissions of an
// older release must not keep the rest of the program from being ready.
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
	// From here on, both the API server's current secret and the next are accepted.
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

// serve sets the served certificate.
func (k *Keeper) serve(c *tls.Certificate) {
	k.Started() // makes the channel
	if k.serving.Swap(c) == nil {
		close(k.started)
	}
}

// installed reports whether the configuration exists, and records it in idle.
func (k *Keeper) installed(ctx context.Context) (bool, error) {
	err := k.Live.Get(ctx, types.NamespacedName{Name: k.Configuration}, &admissionv1.ValidatingWebhookConfiguration{})
	switch {
	case err == nil:
		if k.idle.Swap(false) {
			k.Log.Info("The ValidatingWebhookConfiguration exists; serving the webhook", "configuration", k.Configuration)
		}
		return true, nil
	case apierrors.IsNotFound(err):
		if !k.idle.Swap(true) {
			k.Log.Info("The ValidatingWebhookConfiguration does not exist; the webhook is served once it does", "configuration", k.Configuration)
		}
		return false, nil
	case apierrors.IsForbidden(err):
		k.idle.Store(true)
	}
	return false, fmt.Errorf("get ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
}

// inject writes the authorities, unless nil, and the URL with the secret to the webhooks of the
// configuration.
func (k *Keeper) inject(ctx context.Context, authorities []byte, secret string) error {
	var configuration admissionv1.ValidatingWebhookConfiguration
	if err := k.Live.Get(ctx, types.NamespacedName{Name: k.Configuration}, &configuration); err != nil {
		return fmt.Errorf("get ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
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
		return fmt.Errorf("write the clientConfig of ValidatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	return nil
}

// setPath sets the path at which the API server calls a webhook.
func setPath(c *admissionv1.WebhookClientConfig, path string) error {
	switch {
	case c.Service != nil:
		c.Service.Path = &path
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil {
			return errors.New("clientConfig.url is not a valid URL: correct it") // without the text, which may contain a secret
		}
		u.Path = path
		text := u.String()
		c.URL = &text
	}
	return nil
}
