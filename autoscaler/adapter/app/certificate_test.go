package app

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/internal/platform/servingcert"
	"supercargo.dev/supercargo/test/kit/testapi"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// certificateIn returns the certificate of a replica that uses the cluster c.
func certificateIn(c client.Client) *certificate {
	return newCertificate(servingcert.Secret{
		Client: c, Live: c, Name: types.NamespacedName{Namespace: self.Namespace, Name: self.Name + "-certificate"},
		Hosts: []string{"supercargo-metrics-adapter.supercargo-system.svc"}, Log: logr.Discard(),
	}, clocktesting.NewFakeClock(noon))
}

// replica returns a replica's registration, with a clock that shows the time at.
func replica(c client.Client, at time.Time) *registration {
	r := &registration{client: c, live: c, service: self, groups: []string{customGroup}, certificate: certificateIn(c), clock: clocktesting.NewFakeClock(at), log: logr.Discard()}
	r.certificate.Clock = clocktesting.NewFakeClock(at)
	return r
}

// trusts returns why the cluster's API server would not trust what a replica serves.
func trusts(t *testing.T, c client.Client, r *registration, at time.Time) error {
	t.Helper()
	var a apiregistrationv1.APIService
	testapi.Get(t, c, client.ObjectKey{Name: "v1beta2." + customGroup}, &a)
	chain, key := r.certificate.CurrentCertKeyContent()
	return servingcert.Pair{Certificate: chain, Key: key, Authorities: a.Spec.CABundle}.Check(r.certificate.Secret.Hosts, at)
}

// TestReplicasServeOneCertificateAndRenewItWithoutARestart: the API server trusts one bundle
// and connects to any replica.
func TestReplicasServeOneCertificateAndRenewItWithoutARestart(t *testing.T) {
	c := keeper(t, apiService("v1beta2", customGroup, self.String())).client
	a, b := replica(c, noon), replica(c, noon)
	for _, r := range []*registration{a, b, a} { // in any order
		if err := r.once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := a.certificate.CurrentCertKeyContent()
	if other, _ := b.certificate.CurrentCertKeyContent(); !bytes.Equal(first, other) || len(first) == 0 {
		t.Error("each replica has a certificate of its own")
	}
	for _, r := range []*registration{a, b} {
		if err := trusts(t, c, r, noon); err != nil {
			t.Error(err)
		}
	}

	late := noon.Add(servingcert.Lifetime - servingcert.RenewBefore)
	told := &listener{}
	b.certificate.AddListener(told)
	b.certificate.Clock = clocktesting.NewFakeClock(late)
	if err := b.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if renewed, _ := b.certificate.CurrentCertKeyContent(); bytes.Equal(first, renewed) || told.times != 1 {
		t.Errorf("the certificate is the same, or the server was told %d times, want another, and once", told.times)
	}
	for name, r := range map[string]*registration{"the one that has not looked again": a, "the one that renewed it": b} {
		at := late
		if r == a {
			at = late.Add(-time.Second) // from then on, Check demands a new one
		}
		if err := trusts(t, c, r, at); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.certificate.Clock = clocktesting.NewFakeClock(late)
	if err := a.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := trusts(t, c, a, late); err != nil {
		t.Error(err)
	}
	if err := trusts(t, c, b, late); err != nil {
		t.Error(err)
	}
}

type listener struct{ times int }

func (l *listener) Enqueue() { l.times++ }

func TestReplicasThatStartAtTheSameTimeAgree(t *testing.T) {
	var other *registration
	raced := false
	base := keeper(t, apiService("v1beta2", customGroup, self.String())).client
	c := interceptor.NewClient(base.(client.WithWatch), interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if !raced {
			raced = true
			if err := other.once(ctx); err != nil {
				return err
			}
		}
		return c.Create(ctx, o, opts...)
	}})
	other = replica(base, noon)
	one := replica(c, noon)
	if err := one.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*registration{one, other} {
		if err := trusts(t, c, r, noon); err != nil {
			t.Error(err)
		}
	}
	if !raced {
		t.Error("nobody was faster")
	}
}

// TestAReplicaWithoutTheSecretServesAlone: the namespace does not exist, or RBAC predates the
// Secret.
func TestAReplicaWithoutTheSecretServesAlone(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for name, why := range map[string]error{
		"no rights":    apierrors.NewForbidden(resource, "certificate", errors.New("no rights")),
		"no namespace": apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "supercargo-system"),
	} {
		t.Run(name, func(t *testing.T) {
			c := interceptor.NewClient(keeper(t, apiService("v1beta2", customGroup, self.String())).client.(client.WithWatch), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return why },
			})
			r := replica(c, noon)
			for range 2 {
				if err := r.once(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			before, _ := r.certificate.CurrentCertKeyContent()
			if err := trusts(t, c, r, noon); err != nil {
				t.Error(err)
			}
			if err := r.once(t.Context()); err != nil {
				t.Fatal(err)
			}
			if after, _ := r.certificate.CurrentCertKeyContent(); !bytes.Equal(before, after) {
				t.Error("it makes a certificate each time that it looks")
			}
		})
	}
}

// TestWhatWasServedStaysWhenTheAPIServerDoesNotAnswer: no untrusted certificate is created.
func TestWhatWasServedStaysWhenTheAPIServerDoesNotAnswer(t *testing.T) {
	down := false
	c := interceptor.NewClient(keeper(t, apiService("v1beta2", customGroup, self.String())).client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*corev1.Secret); is && down {
				return apierrors.NewTimeoutError("too slow", 1)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	r := replica(c, noon)
	if err := r.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, _ := r.certificate.CurrentCertKeyContent()
	down = true
	if err := r.once(t.Context()); err == nil || !strings.Contains(err.Error(), "read Secret supercargo-system/supercargo-metrics-adapter-certificate") {
		t.Errorf("error %v", err)
	}
	if after, _ := r.certificate.CurrentCertKeyContent(); !bytes.Equal(before, after) {
		t.Error("another certificate is served")
	}
}
