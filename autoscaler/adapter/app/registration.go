package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/poll"
	"supercargo.dev/supercargo/internal/platform/servingcert"
)

// The API groups that one server in a cluster can serve.
const (
	customGroup   = "custom.metrics.k8s.io"
	externalGroup = "external.metrics.k8s.io"
)

var flagOf = map[string]string{customGroup: "--custom-metrics=false", externalGroup: "--external-metrics=false"}

// groups returns the groups that are served.
func (o *Options) groups() []string {
	var groups []string
	if o.Custom {
		groups = append(groups, customGroup)
	}
	if o.External {
		groups = append(groups, externalGroup)
	}
	return groups
}

// registrationEvery is how often the APIServices are checked, and registrationSoon is the
// interval after an error.
const (
	registrationEvery = time.Minute
	registrationSoon  = 5 * time.Second
)

// registration maintains the APIServices through which the cluster's API server reaches the
// adapter.
type registration struct {
	client      client.Client
	live        client.Reader
	service     types.NamespacedName
	groups      []string
	certificate *certificate // its authorities go into the APIServices; nil leaves the APIServices unchanged
	clock       clock.WithTicker
	log         logr.Logger
	published   []byte // the authorities in the ConfigMap
}

// check returns an error if another server serves one of the groups.
func (r *registration) check(ctx context.Context) error {
	var list apiregistrationv1.APIServiceList
	if err := r.live.List(ctx, &list); err != nil {
		return fmt.Errorf("check for other metrics servers: list APIServices: %w", err)
	}
	return taken(list.Items, r.groups, r.service)
}

// taken returns an error if a Service other than ours serves one of the groups, in any
// version: clients may use any version, and would find different metrics in each.
func taken(all []apiregistrationv1.APIService, groups []string, ours types.NamespacedName) error {
	for i := range all {
		spec := &all[i].Spec
		if !slices.Contains(groups, spec.Group) || spec.Service == nil {
			continue
		}
		theirs := types.NamespacedName{Namespace: spec.Service.Namespace, Name: spec.Service.Name}
		if theirs != ours {
			return fmt.Errorf("%s is already served by Service %s%s according to APIService %s, and only one server can serve it: start with %s to leave it to that server, "+
				"or remove that server and its APIService; if it is this server under another name, set --service", spec.Group, theirs, known(theirs.Name), all[i].Name, flagOf[spec.Group])
		}
	}
	return nil
}

// known returns which project a Service belongs to, judged by its usual name.
func known(service string) string {
	switch {
	case strings.HasPrefix(service, "keda"):
		return " (KEDA)"
	case strings.Contains(service, "prometheus-adapter"):
		return " (prometheus-adapter)"
	}
	return ""
}

// keep writes the authorities of our certificate into our APIServices until ctx ends, and
// logs an error if another server takes them over.
func (r *registration) keep(ctx context.Context) error {
	poll.Repeat(ctx, r.clock, registrationEvery, registrationSoon, r.once, func(err error) {
		if err != nil {
			r.log.Error(err, "Failed to update the APIServices, will retry")
		}
	})
	return nil
}

func (r *registration) once(ctx context.Context) error {
	var list apiregistrationv1.APIServiceList
	if err := r.live.List(ctx, &list); err != nil {
		return fmt.Errorf("list APIServices: %w", err)
	}
	if err := taken(list.Items, r.groups, r.service); err != nil {
		return err
	}
	pair, err := r.trusted(ctx)
	if err != nil {
		return err
	}
	missing := slices.Clone(r.groups)
	for i := range list.Items {
		a := &list.Items[i]
		if !slices.Contains(r.groups, a.Spec.Group) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(g string) bool { return g == a.Spec.Group })
		if r.certificate == nil || bytes.Equal(a.Spec.CABundle, pair.Authorities) {
			continue
		}
		before := a.DeepCopy()
		a.Spec.CABundle = pair.Authorities
		if err := r.client.Patch(ctx, a, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("write the authorities into APIService %s: %w", a.Name, err)
		}
	}
	if err := r.publish(ctx, pair.Authorities); err != nil {
		return err
	}
	if r.certificate != nil {
		if err := r.certificate.Serve(pair); err != nil { // its authorities are trusted by now
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no APIService for %s found, so clients cannot reach it: apply the manifests", strings.Join(missing, " and "))
	}
	return nil
}

// trusted returns the certificate to serve; empty if the certificate was given.
func (r *registration) trusted(ctx context.Context) (servingcert.Pair, error) {
	if r.certificate == nil {
		return servingcert.Pair{}, nil
	}
	data, err := r.certificate.Ensure(ctx)
	return servingcert.PairOf(data), err
}

// publish writes the authorities into the ConfigMap NAME-ca, where NAME is that of the
// Service, once. Clients that bypass the aggregator, such as the autoscaler, mount it. It
// does not create the ConfigMap: if the manifests did not, no client needs it.
func (r *registration) publish(ctx context.Context, authorities []byte) error {
	if authorities == nil || bytes.Equal(r.published, authorities) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{servingcert.AuthoritiesKey: string(authorities)}})
	if err != nil {
		return fmt.Errorf("write the authorities: %w", err)
	}
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.service.Namespace, Name: r.service.Name + "-ca"}}
	if err := r.client.Patch(ctx, c, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the authorities into ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
	}
	r.published = authorities
	return nil
}
