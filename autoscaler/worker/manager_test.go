package worker

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
)

func secret(name, key string, value []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{key: value}}
}

// put replaces a Secret.
func (b *bench) put(s *corev1.Secret) {
	b.Helper()
	if err := b.Update(b.Context(), s); err != nil {
		b.Fatal(err)
	}
}

// expectAnswer checks that the manager answers, or otherwise the error.
func (b *bench) expectAnswer(refused string) {
	b.Helper()
	c := meta.FindStatusCondition(b.pool().Status.Conditions, v1alpha1.PoolConnected)
	switch {
	case c == nil:
		b.Error("nothing is said of whether the manager answers")
	case refused == "" && c.Status != metav1.ConditionTrue:
		b.Errorf("the manager does not answer: %s", c.Message)
	case refused != "" && (c.Status != metav1.ConditionFalse || c.Reason != "NotResponding" || !strings.Contains(c.Message, refused)):
		b.Errorf("%+v, want no answer because of %q", c, refused)
	}
}

func TestAPoolProvesThePasswordOfItsSecret(t *testing.T) {
	m := workqueuetest.Start(t, twoWait, "word\n", nil)
	b := newBench(t, interceptor.Funcs{}, secret("makeflow", "password", []byte("another\n")), poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) {
		s.Manager.PasswordSecret = &v1alpha1.SecretKey{Name: "makeflow", Key: "password"}
	}))
	b.evaluate()
	b.expectAnswer("password: does not match that of the manager")
	if len(b.pods()) > 0 {
		t.Fatal("a worker was made for a manager that did not answer")
	}
	b.put(secret("makeflow", "password", []byte("word\n")))
	b.evaluate()
	b.expectAnswer("")
	pods := b.pods()
	if len(pods) != 1 {
		t.Fatalf("%d workers, want one", len(pods))
	}
	c, mounted := pods[0].Spec.Containers[0], pods[0].Spec.Volumes
	if len(mounted) != 1 || mounted[0].Secret == nil || mounted[0].Secret.SecretName != "makeflow" || len(c.VolumeMounts) != 1 || !slices.Contains(c.Args, c.VolumeMounts[0].MountPath+"/password") {
		t.Errorf("volumes %+v, mounts %+v and arguments %q, want the password of the Secret given to the worker", mounted, c.VolumeMounts, c.Args)
	}
	b.put(secret("makeflow", "word", []byte("word\n")))
	b.evaluate()
	b.expectAnswer(`read Secret makeflow: it has no key "password"`)
	if len(b.pods()) != 1 {
		t.Error("a worker went because of a Secret")
	}
}

// certified returns a web server with a certificate for 127.0.0.1 and example.com, and the certificate as PEM.
func certified(t *testing.T) (server *httptest.Server, ca []byte) {
	t.Helper()
	server = httptest.NewUnstartedServer(nil)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestAPoolChecksTheCertificateOfItsManager(t *testing.T) {
	server, ca := certified(t)
	m := workqueuetest.Start(t, twoWait, "word\n", server.TLS)
	trusts := &v1alpha1.SecretKey{Name: "ca", Key: "ca.crt"}
	for _, tc := range []struct {
		name    string
		tls     *v1alpha1.WorkQueueTLS
		refused string
	}{
		{"signed by who is trusted", &v1alpha1.WorkQueueTLS{CASecret: trusts}, ""},
		{"by its name, not its address", &v1alpha1.WorkQueueTLS{CASecret: trusts, ServerName: "example.com"}, ""},
		{"by a name that it does not have", &v1alpha1.WorkQueueTLS{CASecret: trusts, ServerName: "example.org"}, x509.HostnameError{Certificate: server.Certificate(), Host: "example.org"}.Error()},
		{"signed by nobody whom this machine trusts", &v1alpha1.WorkQueueTLS{}, "TLS: tls: failed to verify certificate"},
		{"whose signer is not in the Secret", &v1alpha1.WorkQueueTLS{CASecret: &v1alpha1.SecretKey{Name: "ca", Key: "other"}}, `read Secret ca: it has no key "other"`},
		{"asked without TLS", nil, "password: read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, interceptor.Funcs{}, secret("makeflow", "password", []byte("word\n")), secret("ca", "ca.crt", ca), poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) {
				s.Manager.PasswordSecret, s.Manager.TLS = &v1alpha1.SecretKey{Name: "makeflow", Key: "password"}, tc.tls
				s.Manager.Timeout = span(20 * time.Second) // a busy machine takes long to shake hands
			}))
			b.evaluate()
			b.expectAnswer(tc.refused)
			switch pods := b.pods(); {
			case tc.refused != "":
				if len(pods) > 0 {
					t.Error("a worker was made for a manager that is not trusted")
				}
			case len(pods) != 1 || !slices.Contains(pods[0].Spec.Containers[0].Args, "--ssl"):
				t.Errorf("pods %+v, want one worker, which is told that the manager wants TLS", pods)
			}
		})
	}
}

// startCatalog starts a catalog server with the given JSON entries.
func startCatalog(t *testing.T) (address string, know func(entries ...string)) {
	t.Helper()
	knows := make(chan []string, 1)
	knows <- nil
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entries := <-knows
		knows <- entries
		fmt.Fprintf(w, "[%s]", strings.Join(entries, ","))
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), func(entries ...string) {
		<-knows
		knows <- entries
	}
}

// entry is a catalog server's entry of a manager.
func entry(address string, heard int, more string) string {
	host, port, _ := strings.Cut(address, ":")
	return fmt.Sprintf(`{"type":"wq_master","project":"flow","address":%q,"port":%s,"lastheardfrom":%d%s}`, host, port, heard, more)
}

// twoWaitOf returns the answers of a manager of a project, with two tasks that wait.
func twoWaitOf(project string) map[string]string {
	answers := maps.Clone(twoWait)
	answers["queue_status"] = strings.Replace(answers["queue_status"], `"p"`, fmt.Sprintf("%q", project), 1)
	return answers
}

// TestAnotherManagerAtTheAddressOfTheCatalogServerIsNotFollowed: the manager has ended, its entry is still listed, and
// the manager of another project has its port.
func TestAnotherManagerAtTheAddressOfTheCatalogServerIsNotFollowed(t *testing.T) {
	other := workqueuetest.Start(t, twoWaitOf("other"), "", nil)
	catalog, know := startCatalog(t)
	b := newBench(t, interceptor.Funcs{}, poolAt("", func(s *v1alpha1.WorkerPoolSpec) {
		s.Manager.Address, s.Manager.Catalog = nil, &v1alpha1.WorkQueueCatalog{Servers: []string{catalog}, Project: "flow"}
	}))
	know(entry(other.Address, 100, ""))
	b.evaluate()
	b.expectAnswer(`and the manager there belongs to project "other"`)
	if n := len(b.pods()); n > 0 {
		t.Errorf("%d workers for a manager of another project", n)
	}
	if c := b.pool().Status.Categories; len(c) > 0 {
		t.Errorf("it has learned the tasks of another project: %+v", c)
	}
}

func TestAPoolFollowsItsManagerByTheCatalogServer(t *testing.T) {
	first, second := workqueuetest.Start(t, twoWaitOf("flow"), "", nil), workqueuetest.Start(t, twoWaitOf("flow"), "", nil)
	catalog, know := startCatalog(t)
	b := newBench(t, interceptor.Funcs{}, poolAt("", func(s *v1alpha1.WorkerPoolSpec) {
		s.Manager.Address, s.Manager.Catalog = nil, &v1alpha1.WorkQueueCatalog{Servers: []string{"127.0.0.1:1", catalog}, Project: "flow"}
	}))
	b.evaluate()
	b.expectAnswer(`project "flow": no catalog server lists`)
	if len(b.pods()) > 0 {
		t.Fatal("a worker was made for a manager that nobody knows")
	}
	know(entry(first.Address, 100, ""))
	if p := b.evaluate(); p.Status.Queue == nil || p.Status.Queue.Address != first.Address || len(b.pods()) != 1 {
		t.Fatalf("queue %+v and %d workers, want that at %s and one", p.Status.Queue, len(b.pods()), first.Address)
	}
	if args := b.pods()[0].Spec.Containers[0].Args; !slices.Equal(args[len(args)-4:], []string{"--catalog", "127.0.0.1:1," + catalog, "--manager-name", "^flow$"}) {
		t.Errorf("arguments %q, want the worker to ask the catalog servers too", args)
	}
	know(entry(first.Address, 100, ""), entry(second.Address, 200, "")) // restarted on another port
	if p := b.evaluate(); p.Status.Queue.Address != second.Address {
		t.Errorf("asked %s, want %s, which was heard of last", p.Status.Queue.Address, second.Address)
	}
	know()
	b.evaluate()
	b.expectAnswer("") // it is still where it was
	if len(b.pods()) != 1 {
		t.Error("a worker went because a catalog server has forgotten its manager")
	}
}

// TestAPoolAsksItsManagerWhereItWasWhenTheCatalogServerIsAway: a catalog server that is down, or that has dropped a
// manager too busy to send updates, does not know the manager.
func TestAPoolAsksItsManagerWhereItWasWhenTheCatalogServerIsAway(t *testing.T) {
	m := startManager(t)
	m.Put(twoWaitOf("flow"))
	catalog, know := startCatalog(t)
	b := newBench(t, interceptor.Funcs{}, poolAt("", func(s *v1alpha1.WorkerPoolSpec) {
		s.Manager.Address, s.Manager.Catalog = nil, &v1alpha1.WorkQueueCatalog{Servers: []string{catalog}, Project: "flow"}
	}))
	know(entry(m.Address, 100, ""))
	b.evaluate()
	know()
	b.evaluate()
	b.expectAnswer("")
	if c := meta.FindStatusCondition(b.pool().Status.Conditions, v1alpha1.PoolConnected); !strings.Contains(c.Message, "no catalog server lists") {
		t.Errorf("it says %q, want why the manager is asked where it was", c.Message)
	}
	m.Put(twoWaitOf("another"))
	b.evaluate()
	b.expectAnswer(`belongs to project "another"`)
	m.Close()
	for _, after := range []time.Duration{0, time.Minute} {
		if b.clock.SetTime(begin.Add(2*time.Minute + after)); len(b.pods()) != 1 {
			t.Fatalf("%d pods after %v, want the worker kept", len(b.pods()), after)
		}
		b.evaluate()
	}
	if len(b.pods()) != 0 {
		t.Error("a worker stays although its manager has been gone for long from where it was found last")
	}
}

func TestTheCatalogServerSaysWhetherAManagerWantsTLS(t *testing.T) {
	server, ca := certified(t)
	m := workqueuetest.Start(t, twoWaitOf("flow"), "", server.TLS)
	catalog, know := startCatalog(t)
	at := func(tls *v1alpha1.WorkQueueTLS) *bench {
		return newBench(t, interceptor.Funcs{}, secret("ca", "ca.crt", ca), poolAt("", func(s *v1alpha1.WorkerPoolSpec) {
			s.Manager.Address, s.Manager.Catalog = nil, &v1alpha1.WorkQueueCatalog{Servers: []string{catalog}, Project: "flow"}
			s.Manager.TLS, s.Manager.Timeout = tls, span(500*time.Millisecond)
		})) // which requires TLS, and is trusted only with a Secret
	}
	know(entry(m.Address, 100, `,"ssl":1`))
	b := at(nil)
	b.evaluate()
	b.expectAnswer("TLS: tls: failed to verify certificate")
	know(entry(m.Address, 100, "")) // an old server, which ignores unknown fields
	b = at(&v1alpha1.WorkQueueTLS{CASecret: &v1alpha1.SecretKey{Name: "ca", Key: "ca.crt"}})
	b.evaluate()
	b.expectAnswer("")
}

func TestACatalogServerThatHangsIsAbandoned(t *testing.T) {
	m := workqueuetest.Start(t, twoWait, "", nil)
	stuck := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	t.Cleanup(func() { close(stuck); server.Close() })
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) {
		s.Manager.Address, s.Manager.Catalog = nil, &v1alpha1.WorkQueueCatalog{Servers: []string{server.Listener.Addr().String()}, Project: "flow"}
		s.Manager.Timeout = span(100 * time.Millisecond)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := b.Reconcile(ctx, reconcile.Request{NamespacedName: name}); err != nil || ctx.Err() != nil {
		t.Errorf("error %v (%v), want the pool's own timeout to end it", err, ctx.Err())
	}
	b.expectAnswer("context deadline exceeded")
}
