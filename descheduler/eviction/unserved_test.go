package eviction

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestAWebhookThatIsInstalledAndNotServedIsSaid: one warning for as long as it lasts.
func TestAWebhookThatIsInstalledAndNotServedIsSaid(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy *admissionv1.FailurePolicyType
		says   string
	}{
		{"open", new(admissionv1.Ignore), "evictions kill pods"},
		{"closed", new(admissionv1.Fail), "no pod can be evicted"},
		{"without a policy, which is closed", nil, "no pod can be evicted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			configuration := &admissionv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "evictions"}, Webhooks: []admissionv1.ValidatingWebhook{{
					Name: "one", FailurePolicy: tc.policy,
					ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "home", Name: "webhook"}},
				}},
			}
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
			told := events.NewFakeRecorder(10)
			u := &Unserved{Live: c, Events: told, Clock: clocktesting.NewFakeClock(now), Configuration: "evictions", Log: logr.Discard()}
			expect := func(when string, gauge float64, notes int) {
				t.Helper()
				u.check(t.Context())
				if got := testutil.ToFloat64(metricUnserved); got != gauge {
					t.Errorf("%s: the metric is %v, want %v", when, got, gauge)
				}
				if len(told.Events) != notes {
					t.Fatalf("%s: %d Events, want %d", when, len(told.Events), notes)
				}
			}
			expect("not installed", 0, 0)
			installed := configuration.DeepCopy()
			testapi.Create(t, c, installed)
			expect("installed", 1, 1)
			expect("still installed", 1, 1)
			if note := <-told.Events; !strings.Contains(note, tc.says) || !strings.Contains(note, v1alpha1.EvictionReasonEvictionWebhookUnserved) || !strings.Contains(note, "Deployment supercargo-evictions") {
				t.Errorf("the Event is %q", note)
			}
			if err := errors.Join(c.Delete(t.Context(), installed), c.Create(t.Context(), configuration.DeepCopy())); err != nil {
				t.Fatal(err)
			}
			expect("another, which was not seen to come", 1, 0)
			testapi.Delete(t, c, configuration)
			expect("deleted", 0, 0)
			testapi.Create(t, c, configuration.DeepCopy())
			expect("installed again", 1, 1)
			<-told.Events
			endpoints := &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "webhook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "webhook"}},
				Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}},
			}
			testapi.Create(t, c, endpoints)
			expect("a pod that is not ready", 1, 0)
			endpoints.Endpoints[0].Conditions.Ready = new(true)
			testapi.Update(t, c, endpoints)
			expect("served", 0, 0)
			testapi.Delete(t, c, endpoints)
			expect("not served any more", 1, 1)
		})
	}
}
