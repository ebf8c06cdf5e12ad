package programs

import (
	"bytes"
	"context"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	descheduler "supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/eviction"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/manifests"
)

// serveEvictions makes the descheduler of a playground serve its webhook on this machine, and the
// API server call it there.
func serveEvictions(ctx context.Context, p *playground.Playground, o *descheduler.Evictions) error {
	const host = "127.0.0.1"
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return fmt.Errorf("listen for evictions: %w", err)
	}
	o.Listener, o.Hosts, o.Secret = listener, []string{host}, "kube-system/supercargo-evictions"
	webhook, err := evictionWebhook("https://" + listener.Addr().String() + eviction.Path)
	if err == nil {
		err = p.Apply(ctx, webhook)
	}
	if err != nil {
		_ = listener.Close() // the listener is not in use yet
		return err
	}
	return nil
}

// evictionWebhook returns the webhook configuration from manifests/evictions, with url as the
// address.
func evictionWebhook(url string) (found []playground.Manifest, err error) {
	const path = "evictions/base/webhook.yaml"
	all, err := playground.ParseManifests(path, bytes.NewReader(manifests.EvictionWebhook))
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the webhook: %w", err)
	}
	for _, m := range all {
		if m.Object.GetKind() != "ValidatingWebhookConfiguration" {
			continue
		}
		webhooks, _, err := unstructured.NestedSlice(m.Object.Object, "webhooks")
		if err != nil {
			return nil, fmt.Errorf("read the manifest of the webhook: %w", err)
		}
		for _, webhook := range webhooks {
			if fields, ok := webhook.(map[string]any); ok {
				fields["clientConfig"] = map[string]any{"url": url}
			}
		}
		if err := unstructured.SetNestedSlice(m.Object.Object, webhooks, "webhooks"); err != nil {
			return nil, fmt.Errorf("change the manifest of the webhook: %w", err)
		}
		found = append(found, m)
	}
	return found, nil
}
