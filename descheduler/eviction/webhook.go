// Package eviction is the admission webhook that turns evictions of pods that opt in into
// Migrations. So clients that drain a node move running work instead of killing it: `kubectl
// drain`, cluster-api, the stock descheduler, Karpenter.
//
// The answer is decided in descheduler/eviction/evictiondecide, which is pure. This package observes
// (observe.go), writes and answers (webhook.go), counts (metrics.go), serves (server.go), and
// warns if the webhook is not served (unserved.go).
//
// An error on the way to an answer is an HTTP error, not a refusal. So the failurePolicy of the
// webhook's configuration applies, as it does when the webhook is not served.
package eviction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/internal/text/clip"
)

const (
	// mostBytes is the maximum size of a review: that of an API request.
	mostBytes = 3 << 20
	// tries is how often in a row to retry after a write conflict.
	tries = 5
	// longestNote is the maximum length of an Event's note.
	longestNote = 1024
)

// Webhook answers AdmissionReviews of evictions.
type Webhook struct {
	// Client reads Services and nodes from a cache, and writes.
	Client client.Client
	// Live reads without the cache.
	Live client.Reader
	// Events receives Events.
	Events events.EventRecorder
	// Clock is the current time.
	Clock clock.PassiveClock
	// Config configures the answers.
	Config evictiondecide.Config
	// Log receives log lines.
	Log logr.Logger
}

// eviction is a requested eviction.
type eviction struct {
	pod     types.NamespacedName
	options *metav1.DeleteOptions
	dryRun  bool
}

// ServeHTTP answers an AdmissionReview.
func (w *Webhook) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	start := w.Clock.Now()
	review, wanted, err := read(in)
	if err != nil {
		metricErrors.Inc()
		w.Log.Error(err, "Failed to read an AdmissionReview")
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := w.answer(in.Context(), wanted)
	if err != nil {
		metricErrors.Inc()
		w.Log.Error(err, "Failed to answer an eviction; the failurePolicy of the webhook applies", "pod", wanted.pod)
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	count(answer, wanted.dryRun, w.Clock.Since(start))
	out.Header().Set("Content-Type", "application/json")
	reply := admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: respond(review.Request.UID, answer)}
	if err := json.NewEncoder(out).Encode(reply); err != nil {
		w.Log.V(1).Info("Failed to send the response to the API server", "pod", wanted.pod, "err", err.Error())
	}
}

// read parses the request. The dry run may be set in the eviction's own delete options instead of
// the review, as `kubectl drain --dry-run=server` does.
func read(in *http.Request) (*admissionv1.AdmissionReview, eviction, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, in.Body, mostBytes))
	if err != nil {
		return nil, eviction{}, fmt.Errorf("read the AdmissionReview: %w", err)
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, eviction{}, fmt.Errorf("read the AdmissionReview: %w", err)
	}
	r := review.Request
	if r == nil || review.APIVersion != admissionv1.SchemeGroupVersion.String() || r.Resource.Resource != "pods" || r.SubResource != "eviction" {
		return nil, eviction{}, errors.New("the request must be an AdmissionReview of admission.k8s.io/v1 for pods/eviction: correct the rules of the ValidatingWebhookConfiguration")
	}
	var asked policyv1.Eviction
	if len(r.Object.Raw) > 0 {
		if err := json.Unmarshal(r.Object.Raw, &asked); err != nil {
			return nil, eviction{}, fmt.Errorf("read the eviction of pod %s/%s: %w", r.Namespace, r.Name, err)
		}
	}
	name := r.Name
	if name == "" {
		name = asked.Name
	}
	wanted := eviction{pod: types.NamespacedName{Namespace: r.Namespace, Name: name}, options: asked.DeleteOptions, dryRun: r.DryRun != nil && *r.DryRun}
	if asked.DeleteOptions != nil && len(asked.DeleteOptions.DryRun) > 0 {
		wanted.dryRun = true
	}
	return review, wanted, nil
}

// respond converts an answer to an AdmissionResponse.
func respond(uid types.UID, a evictiondecide.Answer) *admissionv1.AdmissionResponse {
	r := &admissionv1.AdmissionResponse{UID: uid, Allowed: a.Status == nil, Result: a.Status}
	if a.Warning != "" {
		r.Warnings = []string{a.Warning}
	}
	return r
}

// answer decides and writes, and retries after a write conflict.
func (w *Webhook) answer(ctx context.Context, wanted eviction) (evictiondecide.Answer, error) {
	var last error
	for range tries {
		o, err := w.observe(ctx, wanted)
		if err != nil {
			return evictiondecide.Answer{}, err
		}
		answer := evictiondecide.Reply(w.Config, *o, w.Clock.Now())
		if wanted.dryRun {
			return answer, nil
		}
		if last = w.act(ctx, answer); last == nil {
			w.recordEvent(o.Pod, answer)
			return answer, nil
		}
		if !apierrors.IsConflict(last) {
			return evictiondecide.Answer{}, last
		}
	}
	return evictiondecide.Answer{}, last
}

// act claims the budgets and creates the Migration.
func (w *Webhook) act(ctx context.Context, a evictiondecide.Answer) error {
	for _, b := range a.Claims {
		if err := w.Client.Status().Update(ctx, b); err != nil {
			return fmt.Errorf("claim a disruption from PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
		}
	}
	if a.Migration == nil {
		return nil
	}
	// If this fails, the claim expires; the next answer finds and uses it.
	if err := w.Client.Create(ctx, a.Migration); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Migration %s/%s: %w", a.Migration.Namespace, a.Migration.Name, err)
	}
	return nil
}

// recordEvent creates an Event on the pod for a new Migration or a warning.
func (w *Webhook) recordEvent(pod *corev1.Pod, a evictiondecide.Answer) {
	switch {
	case a.Warning != "":
		w.Events.Eventf(pod, nil, corev1.EventTypeWarning, warningReason(a.Outcome), v1alpha1.ActionEvict, "%s", clip.Bytes(a.Warning, longestNote))
	case a.Outcome == evictiondecide.Started:
		w.Events.Eventf(pod, a.Migration, corev1.EventTypeNormal, v1alpha1.EvictionReasonEvictionMigrates, v1alpha1.ActionMigrate, "%s", clip.Bytes(a.Status.Message, longestNote))
	}
}

// warningReason returns the reason of the Event for an answer with a warning.
func warningReason(o evictiondecide.Outcome) string {
	if o == evictiondecide.NotMovable {
		return v1alpha1.EvictionReasonEvictedNotMovable
	}
	return v1alpha1.EvictionReasonEvictedFailed
}
