package eviction

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/poll"
	"supercargo.dev/supercargo/internal/platform/self"
)

// unservedEvery is the time between two checks.
const unservedEvery = time.Minute

// Unserved runs where the webhook is not served. It warns with a log line, an Event on the
// program's own pod and a metric while the configuration refers to a Service without ready
// endpoints: then its failurePolicy decides about every eviction.
type Unserved struct {
	// Live reads without a cache.
	Live client.Reader
	// Events receives the warning.
	Events events.EventRecorder
	// Clock is the current time.
	Clock clock.WithTicker
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string
	// Log receives the warning too.
	Log logr.Logger

	warned bool
}

// Start checks until ctx ends. It implements manager.Runnable; only the leader runs it.
func (u *Unserved) Start(ctx context.Context) error {
	for {
		u.check(ctx)
		if !poll.Wait(ctx, u.Clock, unservedEvery, nil) {
			return nil
		}
	}
}

// check warns if the webhook of a configuration is not served, once until it is served or
// uninstalled. If something cannot be read, nothing changes.
func (u *Unserved) check(ctx context.Context) {
	var c admissionv1.ValidatingWebhookConfiguration
	err := u.Live.Get(ctx, types.NamespacedName{Name: u.Configuration}, &c)
	switch {
	case apierrors.IsNotFound(err):
		metricUnserved.Set(0)
		u.warned = false
		return
	case err != nil:
		u.Log.V(1).Info("Failed to check whether the eviction webhook is installed", "configuration", u.Configuration, "err", err.Error())
		return
	}
	served, err := u.served(ctx, &c)
	switch {
	case err != nil:
		u.Log.V(1).Info("Failed to check whether the eviction webhook is served", "configuration", u.Configuration, "err", err.Error())
		return
	case served:
		metricUnserved.Set(0)
		u.warned = false
		return
	}
	metricUnserved.Set(1)
	if u.warned {
		return
	}
	u.warned = true
	const note = "ValidatingWebhookConfiguration %s exists, but no ready pod serves its webhook: %s. " +
		"Check why the pods of Deployment supercargo-evictions are not ready, or delete the configuration"
	what := consequence(&c)
	u.Log.Error(nil, "The eviction webhook is installed, but no ready pod serves it", "configuration", u.Configuration, "consequence", what)
	u.Events.Eventf(self.Object(), nil, corev1.EventTypeWarning, v1alpha1.EvictionReasonEvictionWebhookUnserved, v1alpha1.ActionEvict, note, u.Configuration, what)
}

// served reports whether the Services of the configuration have ready endpoints. A webhook with a
// URL counts as served.
func (u *Unserved) served(ctx context.Context, c *admissionv1.ValidatingWebhookConfiguration) (bool, error) {
	for i := range c.Webhooks {
		service := c.Webhooks[i].ClientConfig.Service
		if service == nil {
			continue
		}
		var slices discoveryv1.EndpointSliceList
		if err := u.Live.List(ctx, &slices, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
			return false, fmt.Errorf("list the endpoints of Service %s/%s: %w", service.Namespace, service.Name, err)
		}
		if !ready(slices.Items) {
			return false, nil
		}
	}
	return true, nil
}

// ready reports whether any of the endpoints is ready.
func ready(all []discoveryv1.EndpointSlice) bool {
	for i := range all {
		for _, e := range all[i].Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return true
			}
		}
	}
	return false
}

// consequence describes what happens to evictions while the webhook is not served.
func consequence(c *admissionv1.ValidatingWebhookConfiguration) string {
	for i := range c.Webhooks {
		if p := c.Webhooks[i].FailurePolicy; p == nil || *p == admissionv1.Fail {
			return "no pod can be evicted (failurePolicy Fail)"
		}
	}
	return "evictions kill pods that opted in to moves with their state (failurePolicy Ignore)"
}
