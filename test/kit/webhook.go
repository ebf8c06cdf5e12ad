package kit

import (
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EvictionWebhook returns the webhook configuration in a folder of manifests, changed for a webhook that is
// served at a URL.
func EvictionWebhook(t testing.TB, manifests, url string) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	for _, object := range Objects(t, filepath.Join(manifests, "evictions", "base", "webhook.yaml")) {
		if object.GetObjectKind().GroupVersionKind().Kind != "ValidatingWebhookConfiguration" {
			continue
		}
		c := &admissionv1.ValidatingWebhookConfiguration{}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, c)
		}
		if err != nil {
			t.Fatalf("read the ValidatingWebhookConfiguration of the manifests: %v", err)
		}
		c.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: &url}
		return c
	}
	t.Fatal("the manifests have no ValidatingWebhookConfiguration")
	return nil
}
