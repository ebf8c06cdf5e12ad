// Package certificate manages the certificate of a webhook in a Secret, and its authority in the
// configuration through which the API server calls the webhook.
package certificate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/poll"
	"supercargo.dev/supercargo/internal/platform/servingcert"
)

const (
	// secretEvery is how often the secret of the URL is replaced. Clients that evict see the URL
	// in the error when a webhook with failurePolicy Fail is unreachable, so a secret must not be
	// valid for long: it is accepted for at most twice this time.
	secretEvery = time.Hour
	// rereadEvery is the minimum time between two reads of the Secret that callers with a wrong
	// secret cause in a replica.
	rereadEvery = time.Second
	// checkEvery is the time between two checks of the Secret; retryAfter is that after an error,
	// and uninstalled that without a configuration.
	checkEvery  = time.Minute
	retryAfter  = time.Second
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
	*servingcert.Keeper
	// configuration is the name of the ValidatingWebhookConfiguration whose webhooks get the
	// authorities.
	configuration string
	// path comes before the secret in the URL, such as "/evictions".
	path string

	idle    atomic.Bool // the webhook is not installed
	started chan struct{}

	known   atomic.Pointer[urlSecret]
	reading singleflight.Group
	reread  time.Time // when the Secret was last read because of a wrong secret; used only in reading
}

// New returns a keeper for the webhooks of a ValidatingWebhookConfiguration. The Secret is created if it does not
// exist. If it has no hosts, others manage the certificate and its authority, and the keeper only manages the secret of
// the URL, which follows path, such as "/evictions".
func New(secret servingcert.Secret, configuration, path string, c clock.WithTicker) *Keeper {
	k := &Keeper{configuration: configuration, path: path, started: make(chan struct{})}
	secret.Also = renewSecret
	k.Keeper = &servingcert.Keeper{
		Secret: secret, Publish: k.publish, Changed: sync.OnceFunc(func() { close(k.started) }), Clock: c, Log: secret.Log,
	}
	return k
}

// Started returns a channel that is closed when the first certificate is available.
func (k *Keeper) Started() <-chan struct{} { return k.started }

// Ready is a readiness check. It succeeds if there is a certificate, or if the webhook is not
// installed.
func (k *Keeper) Ready(*http.Request) error {
	if k.idle.Load() {
		return nil
	}
	_, err := k.GetCertificate(nil)
	return err
}

// NeedLeaderElection returns false: every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start manages the certificate until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		pause := checkEvery
		switch err := k.Keep(ctx); {
		case err != nil && ctx.Err() == nil:
			k.Log.Error(err, "Failed to update the certificate of the webhook; retrying")
			if !k.idle.Load() {
				pause = retryAfter
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
	return k.Keeper.Keep(ctx)
}

// publish writes what is in the data of the Secret to the configuration.
func (k *Keeper) publish(ctx context.Context, data map[string][]byte) error {
	// From here on, both the API server's current secret and the next are accepted.
	k.known.Store(secretOf(data))
	var authorities []byte
	if len(k.Secret.Hosts) > 0 {
		authorities = servingcert.PairOf(data).Authorities
	}
	return k.inject(ctx, authorities, k.known.Load().now)
}

// installed reports whether the configuration exists, and records it in idle.
func (k *Keeper) installed(ctx context.Context) (bool, error) {
	err := k.Secret.Live.Get(ctx, types.NamespacedName{Name: k.configuration}, &admissionv1.ValidatingWebhookConfiguration{})
	switch {
	case err == nil:
		if k.idle.Swap(false) {
			k.Log.Info("The ValidatingWebhookConfiguration exists; serving the webhook", "configuration", k.configuration)
		}
		return true, nil
	case apierrors.IsNotFound(err):
		if !k.idle.Swap(true) {
			k.Log.Info("The ValidatingWebhookConfiguration does not exist; the webhook is served once it does", "configuration", k.configuration)
		}
		return false, nil
	case apierrors.IsForbidden(err):
		k.idle.Store(true)
	}
	return false, fmt.Errorf("get ValidatingWebhookConfiguration %s: %w", k.configuration, err)
}

// inject writes the authorities, unless nil, and the URL with the secret to the webhooks of the
// configuration.
func (k *Keeper) inject(ctx context.Context, authorities []byte, secret string) error {
	var configuration admissionv1.ValidatingWebhookConfiguration
	if err := k.Secret.Live.Get(ctx, types.NamespacedName{Name: k.configuration}, &configuration); err != nil {
		return fmt.Errorf("get ValidatingWebhookConfiguration %s: %w", k.configuration, err)
	}
	before := configuration.DeepCopy()
	for i := range configuration.Webhooks {
		c := &configuration.Webhooks[i].ClientConfig
		if authorities != nil {
			c.CABundle = authorities
		}
		if err := setPath(c, k.path+"/"+secret); err != nil {
			return fmt.Errorf("webhook %s of ValidatingWebhookConfiguration %s: %w", configuration.Webhooks[i].Name, k.configuration, err)
		}
	}
	if equality.Semantic.DeepEqual(before, &configuration) {
		return nil
	}
	if err := k.Secret.Client.Patch(ctx, &configuration, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the clientConfig of ValidatingWebhookConfiguration %s: %w", k.configuration, err)
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
