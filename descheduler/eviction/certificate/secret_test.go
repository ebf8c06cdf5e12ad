package certificate

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/test/kit/testapi"
)

// called configures webhooks with a service and with a URL.
func called(t *testing.T, c client.Client) {
	t.Helper()
	var configuration admissionv1.ValidatingWebhookConfiguration
	testapi.Get(t, c, client.ObjectKey{Name: "evictions"}, &configuration)
	url := "https://127.0.0.1:9443/evictions"
	configuration.Webhooks[0].ClientConfig.Service = &admissionv1.ServiceReference{Namespace: "ns", Name: "webhook"}
	configuration.Webhooks[1].ClientConfig.URL = &url
	testapi.Update(t, c, &configuration)
}

// told returns the secret in the configuration, which must be the same in both webhooks.
func told(t *testing.T, c client.Client) string {
	t.Helper()
	var configuration admissionv1.ValidatingWebhookConfiguration
	testapi.Get(t, c, client.ObjectKey{Name: "evictions"}, &configuration)
	path, url := configuration.Webhooks[0].ClientConfig.Service.Path, *configuration.Webhooks[1].ClientConfig.URL
	if path == nil {
		t.Fatal("the API server is told no path")
	}
	secret := strings.TrimPrefix(*path, "/evictions/")
	if len(secret) != 64 || url != "https://127.0.0.1:9443/evictions/"+secret {
		t.Fatalf("the API server is told path %q and URL %q", *path, url)
	}
	return secret
}

// knows calls Knows on a keeper whose clock advances meanwhile.
func knows(t *testing.T, k *Keeper, at *clocktesting.FakeClock, secret string) bool {
	t.Helper()
	answer := make(chan bool, 1)
	go func() { answer <- k.Knows(t.Context(), secret) }()
	for {
		select {
		case known := <-answer:
			return known
		case <-time.After(time.Millisecond):
			if at.HasWaiters() {
				at.Step(rereadEvery)
			}
		}
	}
}

func TestTheAPIServerIsToldASecretThatIsReplaced(t *testing.T) {
	k, c := kept(t)
	called(t, c)
	if k.Knows(t.Context(), "") {
		t.Error("before there is a secret, an empty one is right")
	}
	var secrets []string
	at := clocktesting.NewFakeClock(now)
	k.Clock = at
	for range 3 {
		for range 2 { // the second time there is nothing to do
			if err := k.Keep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		secrets = append(secrets, told(t, c))
		at.Step(secretEvery)
	}
	at.Step(-secretEvery)
	if secrets[0] == secrets[1] || secrets[1] == secrets[2] {
		t.Errorf("the secret is not replaced: %d different ones are wanted", len(secrets))
	}
	for i, want := range []bool{false, true, true} {
		if got := knows(t, k, at, secrets[i]); got != want {
			t.Errorf("secret %d of three is known: %v, want %v", i, got, want)
		}
	}
	for _, wrong := range []string{"", "x", strings.ToUpper(secrets[2]), secrets[2] + "0", secrets[2][1:], strings.Repeat("0", 64)} {
		if knows(t, k, at, wrong) {
			t.Errorf("%q is taken for the secret", wrong)
		}
	}
}

func TestReplicasLearnASecretThatAnotherHasMade(t *testing.T) {
	reads := 0
	first, c := kept(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*corev1.Secret); ok {
			reads++
		}
		return c.Get(ctx, key, o, opts...)
	}})
	called(t, c)
	second := keeper(c)
	second.Clock = clocktesting.NewFakeClock(now.Add(secretEvery))
	for _, k := range []*Keeper{first, second} {
		if err := k.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reads = 0
	secret := told(t, c)
	for range 3 {
		if !first.Knows(t.Context(), secret) {
			t.Error("a replica refuses the API server, since another replica has made a new secret")
		}
	}
	if reads != 1 {
		t.Errorf("the Secret is read %d times, want once", reads)
	}
}

// TestCertificatesOfOthersAreLeftUnchanged is for --eviction-webhook-cert-dir.
func TestCertificatesOfOthersAreLeftUnchanged(t *testing.T) {
	k, c := kept(t)
	called(t, c)
	var configuration admissionv1.ValidatingWebhookConfiguration
	testapi.Get(t, c, client.ObjectKey{Name: "evictions"}, &configuration)
	configuration.Webhooks[0].ClientConfig.CABundle = []byte("theirs")
	testapi.Update(t, c, &configuration)
	k.Secret.Hosts = nil
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !k.Knows(t.Context(), told(t, c)) {
		t.Error("the API server is refused")
	}
	testapi.Get(t, c, client.ObjectKey{Name: "evictions"}, &configuration)
	if got := string(configuration.Webhooks[0].ClientConfig.CABundle); got != "theirs" {
		t.Errorf("the authorities are %q now", got)
	}
}

func FuzzSecretsOfTheURL(f *testing.F) {
	f.Add("", "", "")
	f.Add("2026-01-01T12:00:00Z", "secret", "before")
	f.Fuzz(func(t *testing.T, since, secret, before string) {
		data := map[string][]byte{secretSinceKey: []byte(since), secretKey: []byte(secret), secretBeforeKey: []byte(before)}
		renewSecret(data, now)
		if s := secretOf(data); len(s.now) != 2*secretBytes || s.is("") {
			t.Errorf("the secret has %d characters, and an empty one is right: %v", len(s.now), s.is(""))
		}
		if renewSecret(data, now.Add(time.Minute)) {
			t.Error("a good secret is replaced")
		}
	})
}
