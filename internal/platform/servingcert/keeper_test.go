package servingcert

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/test/kit/testapi"
)

var name = types.NamespacedName{Namespace: "ns", Name: "webhook"}

// clusterWith returns a cluster with objects, whose client's calls can be changed.
func clusterWith(calls interceptor.Funcs, objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(calls).Build()
}

// empty returns the objects that the manifests create empty.
func empty() []client.Object {
	meta := metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
	return []client.Object{&corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS}, &corev1.ConfigMap{ObjectMeta: meta}}
}

// keeperOf returns the keeper of a replica whose objects must exist.
func keeperOf(c client.Client, at time.Time) *Keeper {
	return &Keeper{
		Secret:  Secret{Client: c, Live: c, Name: name, MustExist: true, Hosts: hosts, Log: logr.Discard()},
		Publish: ToConfigMap(c, name), Clock: clocktesting.NewFakeClock(at), Log: logr.Discard(),
	}
}

func keep(t *testing.T, keepers ...*Keeper) {
	t.Helper()
	for _, k := range keepers {
		if err := k.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// published returns the authorities that clients trust.
func published(t *testing.T, c client.Client) []byte {
	t.Helper()
	var m corev1.ConfigMap
	testapi.Get(t, c, name, &m)
	return []byte(m.Data[AuthoritiesKey])
}

// trusts checks that clients trust what a keeper serves.
func trusts(t *testing.T, c client.Client, k *Keeper, at time.Time) {
	t.Helper()
	p := k.Served()
	if err := (Pair{p.Certificate, p.Key, published(t, c)}).Check(hosts, at); err != nil {
		t.Error(err)
	}
}

const due = Lifetime - RenewBefore

func TestReplicasServeOneCertificateAndRenewItInTime(t *testing.T) {
	c := clusterWith(interceptor.Funcs{}, empty()...)
	first, second := keeperOf(c, now), keeperOf(c, now)
	if err := first.Ready(t.Context()); err == nil || len(first.Served().Certificate) > 0 {
		t.Error("it is ready without a certificate")
	}
	keep(t, first, second, first)
	if err := first.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	old := first.Served()
	if !bytes.Equal(old.Certificate, second.Served().Certificate) {
		t.Error("each replica has a certificate of its own")
	}
	trusts(t, c, first, now)
	for at, renewed := range map[time.Duration]bool{due - time.Second: false, due: true} {
		c := clusterWith(interceptor.Funcs{}, empty()...)
		keep(t, keeperOf(c, now))
		k := keeperOf(c, now)
		keep(t, k)
		before := k.Served()
		k.Clock = clocktesting.NewFakeClock(now.Add(at))
		keep(t, k)
		if got := !bytes.Equal(before.Certificate, k.Served().Certificate); got != renewed {
			t.Errorf("after %v it is renewed: %v, want %v", at, got, renewed)
		}
	}
	second.Clock = clocktesting.NewFakeClock(now.Add(due))
	keep(t, second)
	trusts(t, c, first, now.Add(due-time.Second)) // it serves the old one until its next check
	trusts(t, c, second, now.Add(due))
}

// TestAReplicaThatIsOvertakenTakesWhatTheOtherHasWritten covers an update and a create of the Secret, and an update of
// the ConfigMap.
func TestAReplicaThatIsOvertakenTakesWhatTheOtherHasWritten(t *testing.T) {
	for what, existing := range map[string][]client.Object{"update": empty(), "create": empty()[1:]} {
		t.Run(what, func(t *testing.T) {
			var other *Keeper
			overtaken := 0
			overtake := func(ctx context.Context) error {
				if overtaken++; overtaken > 1 {
					return nil
				}
				return other.Keep(ctx)
			}
			base := clusterWith(interceptor.Funcs{}, existing...)
			c := interceptor.NewClient(base, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					return errors.Join(overtake(ctx), c.Create(ctx, o, opts...))
				},
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					return errors.Join(overtake(ctx), c.Update(ctx, o, opts...))
				},
			})
			one := keeperOf(c, now)
			other = keeperOf(base, now)
			one.Secret.MustExist, other.Secret.MustExist = false, false
			keep(t, one)
			if overtaken == 0 || !bytes.Equal(one.Served().Certificate, other.Served().Certificate) {
				t.Errorf("overtaken %d times; they serve different certificates", overtaken)
			}
			trusts(t, base, one, now)
		})
	}
}

func TestItGivesUpAfterThreeConflicts(t *testing.T) {
	for _, kind := range []string{"Secret", "ConfigMap"} {
		t.Run(kind, func(t *testing.T) {
			writes := 0
			c := clusterWith(interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if _, secret := o.(*corev1.Secret); secret != (kind == "Secret") {
					return c.Update(ctx, o, opts...)
				}
				writes++
				return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name.Name, errors.New("another wrote"))
			}}, empty()...)
			k := keeperOf(c, now)
			if err := k.Keep(t.Context()); !apierrors.IsConflict(err) || writes != 3 {
				t.Errorf("%d writes, error %v, want 3 and a conflict", writes, err)
			}
		})
	}
}

func TestObjectsThatMustExistAreNotCreated(t *testing.T) {
	for want, objects := range map[string][]client.Object{
		"read Secret ns/webhook, which the manifests create empty":    empty()[1:],
		"read ConfigMap ns/webhook, which the manifests create empty": empty()[:1],
	} {
		c := clusterWith(interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			t.Error("an object is created")
			return nil
		}}, objects...)
		if err := keeperOf(c, now).Keep(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestClientsTrustACertificateBeforeItIsServed: if the authorities cannot be published, the previous certificate stays.
func TestClientsTrustACertificateBeforeItIsServed(t *testing.T) {
	c := clusterWith(interceptor.Funcs{}, empty()...)
	k := keeperOf(c, now)
	var order []string
	publish := k.Publish
	k.Publish = func(ctx context.Context, data map[string][]byte) error {
		order = append(order, "published")
		return publish(ctx, data)
	}
	k.Changed = func() { order = append(order, "served") }
	keep(t, k, k)
	if want := []string{"published", "served", "published"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v: the second time nothing changes", order, want)
	}
	before := k.Served()
	down := errors.New("the API server is down")
	k.Publish = func(context.Context, map[string][]byte) error { return down }
	k.Clock = clocktesting.NewFakeClock(now.Add(due))
	if err := k.Keep(t.Context()); !errors.Is(err, down) {
		t.Errorf("error %v", err)
	}
	if !bytes.Equal(before.Certificate, k.Served().Certificate) {
		t.Error("a certificate is served that clients do not trust")
	}
	first := keeperOf(c, now.Add(due))
	first.Publish = k.Publish
	if err := first.Keep(t.Context()); !errors.Is(err, down) || first.Ready(t.Context()) != nil {
		t.Errorf("error %v; without a previous certificate, the new one is not served", err)
	}
}

func TestWithoutHostsOnlyOtherDataAreKeptAndPublished(t *testing.T) {
	c := clusterWith(interceptor.Funcs{})
	k := keeperOf(c, now)
	k.Secret.MustExist, k.Secret.Hosts = false, nil
	k.Secret.Also = func(data map[string][]byte, at time.Time) bool {
		_, known := data["since"]
		data["since"] = []byte(at.Format(time.RFC3339))
		return !known
	}
	var got string
	k.Publish = func(_ context.Context, data map[string][]byte) error {
		got = string(data["since"])
		return nil
	}
	keep(t, k)
	if got != "2026-01-01T12:00:00Z" || k.Ready(t.Context()) == nil {
		t.Errorf("published %q; a certificate is served: %v", got, k.Ready(t.Context()) == nil)
	}
	var secret corev1.Secret
	if err := c.Get(t.Context(), name, &secret); err != nil || secret.Type != corev1.SecretTypeOpaque || string(secret.Data["since"]) != got {
		t.Errorf("Secret of type %s with %v, error %v", secret.Type, secret.Data, err)
	}
}

// TestAReplicaThatMayNotUseTheSecretHasACertificateOfItsOwn only if it is allowed to, and renews that in time.
func TestAReplicaThatMayNotUseTheSecretHasACertificateOfItsOwn(t *testing.T) {
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name.Name, errors.New("no rights"))
	c := clusterWith(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, secret := o.(*corev1.Secret); secret {
			return no
		}
		return c.Get(ctx, key, o, opts...)
	}}, empty()...)
	k := keeperOf(c, now)
	if err := k.Keep(t.Context()); !apierrors.IsForbidden(err) || k.Ready(t.Context()) == nil {
		t.Errorf("error %v; it serves a certificate that the replicas do not share", err)
	}
	k.InMemory = true
	keep(t, k)
	before := k.Served()
	keep(t, k)
	if !bytes.Equal(before.Certificate, k.Served().Certificate) {
		t.Error("it creates a certificate at each check")
	}
	trusts(t, c, k, now)
	k.Clock = clocktesting.NewFakeClock(now.Add(due))
	keep(t, k)
	if bytes.Equal(before.Certificate, k.Served().Certificate) {
		t.Error("it does not renew the certificate")
	}
	trusts(t, c, k, now.Add(due))
}

func TestThePreviousCertificateStaysWhenTheSecretCannotBeRead(t *testing.T) {
	down := false
	c := clusterWith(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if down {
			return apierrors.NewTimeoutError("too slow", 1)
		}
		return c.Get(ctx, key, o, opts...)
	}}, empty()...)
	k := keeperOf(c, now)
	k.InMemory = true // for other errors
	keep(t, k)
	before := k.Served()
	down = true
	k.Secret.MustExist = false
	if err := k.Keep(t.Context()); err == nil || !strings.Contains(err.Error(), "read Secret ns/webhook") {
		t.Errorf("error %v", err)
	}
	if !bytes.Equal(before.Certificate, k.Served().Certificate) {
		t.Error("another certificate is served")
	}
}

// TestItChecksEveryMinuteAndRetriesSooner runs in a bubble whose time passes at once.
func TestItChecksEveryMinuteAndRetriesSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k := keeperOf(clusterWith(interceptor.Funcs{}, empty()...), time.Now())
		k.Clock = clock.RealClock{}
		start, calls := time.Now(), []time.Duration{}
		k.Publish = func(context.Context, map[string][]byte) error {
			calls = append(calls, time.Since(start))
			switch len(calls) {
			case 1:
				return errors.New("the API server is down")
			case 3:
				cancel()
			}
			return nil
		}
		if err := k.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if want := []time.Duration{0, 2 * time.Second, 62 * time.Second}; !slices.Equal(calls, want) {
			t.Errorf("checks after %v, want %v", calls, want)
		}
	})
}
