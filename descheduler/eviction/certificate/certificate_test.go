package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/internal/platform/servingcert"
	"supercargo.dev/supercargo/test/kit/testapi"
)

var (
	now   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hosts = []string{"webhook.ns.svc", "127.0.0.1"}
)

// kept returns a keeper and a cluster with the configuration of a webhook.
func kept(t *testing.T, change ...interceptor.Funcs) (*Keeper, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "evictions"}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "one"}, {Name: "two"}},
	})
	for _, f := range change {
		b = b.WithInterceptorFuncs(f)
	}
	c := b.Build()
	return keeper(c), c
}

func keeper(c client.Client) *Keeper {
	secret := servingcert.Secret{Client: c, Live: c, Name: types.NamespacedName{Namespace: "ns", Name: "certificate"}, Hosts: hosts, Log: logr.Discard()}
	return New(secret, "evictions", "/evictions", clocktesting.NewFakeClock(now))
}

// trusted checks that the API server trusts the certificate of a keeper.
func trusted(t *testing.T, c client.Client, k *Keeper, at time.Time) {
	t.Helper()
	var configuration admissionv1.ValidatingWebhookConfiguration
	testapi.Get(t, c, client.ObjectKey{Name: "evictions"}, &configuration)
	for _, w := range configuration.Webhooks {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(w.ClientConfig.CABundle)
		client, server := net.Pipe()
		go func() {
			_ = tls.Server(server, &tls.Config{GetCertificate: k.GetCertificate}).Handshake() // the client reports the error
		}()
		err := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: "webhook.ns.svc", Time: func() time.Time { return at }}).HandshakeContext(t.Context())
		if err != nil {
			t.Errorf("webhook %s: %v", w.Name, err)
		}
		if err := errors.Join(client.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestReplicasShareOneCertificateAndRenewIt(t *testing.T) {
	first, c := kept(t)
	second := keeper(c)
	if _, err := first.GetCertificate(nil); err == nil {
		t.Error("there is a certificate before one was made")
	}
	for _, k := range []*Keeper{first, second} {
		if err := k.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		trusted(t, c, k, now)
	}
	a, _ := first.GetCertificate(nil)
	b, _ := second.GetCertificate(nil)
	if !bytes.Equal(a.Certificate[0], b.Certificate[0]) {
		t.Error("each replica has a certificate of its own")
	}
	later := now.Add(servingcert.Lifetime - servingcert.RenewBefore)
	second.Clock = clocktesting.NewFakeClock(later)
	if err := second.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, _ = second.GetCertificate(nil); bytes.Equal(a.Certificate[0], b.Certificate[0]) {
		t.Error("the certificate is not made again in time")
	}
	trusted(t, c, first, later) // it serves the old one until its next check
	trusted(t, c, second, later)
}

func TestReplicasThatMakeItAtTheSameTimeAgree(t *testing.T) {
	var other *Keeper
	raced := false
	first, c := kept(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, ok := o.(*corev1.Secret); ok && !raced {
			raced = true
			if err := other.Keep(ctx); err != nil {
				return err
			}
		}
		return c.Create(ctx, o, opts...)
	}})
	other = keeper(c)
	if err := first.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, _ := first.GetCertificate(nil)
	b, _ := other.GetCertificate(nil)
	if !raced || !bytes.Equal(a.Certificate[0], b.Certificate[0]) {
		t.Error("they do not agree")
	}
}

func TestWhatWasServedStaysWhenTheAPIServerSaysNo(t *testing.T) {
	refuse := false
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "certificate", errors.New("no rights"))
	k, c := kept(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if refuse {
			return no
		}
		return c.Update(ctx, o, opts...)
	}})
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse = true
	k.Clock = clocktesting.NewFakeClock(now.Add(servingcert.Lifetime - servingcert.RenewBefore))
	if err := k.Keep(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "write Secret ns/certificate") {
		t.Errorf("error %v", err)
	}
	trusted(t, c, k, now.Add(servingcert.Lifetime-servingcert.RenewBefore))
}

// TestTheConfigurationAloneTurnsTheWebhookOn: without a configuration a keeper is ready and has
// written nothing; it serves as soon as there is one.
func TestTheConfigurationAloneTurnsTheWebhookOn(t *testing.T) {
	k, c := kept(t)
	k.configuration = "late"
	if err := k.Ready(nil); err == nil {
		t.Error("it is ready before it has looked")
	}
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.Ready(nil); err != nil {
		t.Errorf("without a configuration it is not ready: %v", err)
	}
	if err := c.Get(t.Context(), k.Secret.Name, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret: %v, want none without a configuration", err)
	}
	select {
	case <-k.Started():
		t.Error("it serves without a configuration")
	default:
	}
	testapi.Create(t, c, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-k.Started():
	default:
		t.Error("it does not serve although there is a configuration")
	}
	if err := k.Ready(nil); err != nil {
		t.Error(err)
	}
}

// TestAKeeperWithoutRightsSaysSoAndDoesNotHoldUpItsProgram: the permissions of an older release
// do not include the configuration.
func TestAKeeperWithoutRightsSaysSoAndDoesNotHoldUpItsProgram(t *testing.T) {
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "evictions", errors.New("no rights"))
	k, _ := kept(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*admissionv1.ValidatingWebhookConfiguration); ok {
			return no
		}
		return c.Get(ctx, key, o, opts...)
	}})
	if err := k.Keep(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingWebhookConfiguration evictions") {
		t.Errorf("error %v", err)
	}
	if err := k.Ready(nil); err != nil {
		t.Errorf("the program is not ready: %v", err)
	}
}

func TestACertificateIsServedAlthoughItsConfigurationCannotBeWritten(t *testing.T) {
	k, _ := kept(t, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "evictions", errors.New("no rights"))
	}})
	if err := k.Keep(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "clientConfig of ValidatingWebhookConfiguration evictions") {
		t.Errorf("error %v", err)
	}
	if _, err := k.GetCertificate(nil); err != nil {
		t.Error(err)
	}
}

// TestAuthoritiesFromBeforeAreNotInjectedOverThoseOfOthers: the Secret still has ours when others
// begin to manage the certificate.
func TestAuthoritiesFromBeforeAreNotInjectedOverThoseOfOthers(t *testing.T) {
	k, c := kept(t)
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var configuration admissionv1.ValidatingWebhookConfiguration
	testapi.Get(t, c, client.ObjectKey{Name: "evictions"}, &configuration)
	configuration.Webhooks[0].ClientConfig.CABundle = []byte("theirs")
	testapi.Update(t, c, &configuration)
	next := keeper(c)
	next.Secret.Hosts = nil
	if err := next.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	testapi.Get(t, c, client.ObjectKey{Name: "evictions"}, &configuration)
	if got := string(configuration.Webhooks[0].ClientConfig.CABundle); got != "theirs" {
		t.Errorf("the authorities are %q now", got)
	}
	if _, err := next.GetCertificate(nil); err == nil {
		t.Error("it serves a certificate although others do")
	}
}
