//go:build workers

package workers

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// startTLS starts a TLS proxy in front of a manager, because Debian's cctools lacks TLS. It returns the proxy's
// address and the CA of its certificate.
func startTLS(t *testing.T, manager string) (address string, ca []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS() // for its certificate, which is for 127.0.0.1
	t.Cleanup(server.Close)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := tls.NewListener(plain, server.TLS)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(conn, manager)
		}
	}()
	return plain.Addr().String(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// pass connects a client to the manager until the manager closes the connection.
func pass(conn net.Conn, manager string) {
	defer func() { _ = conn.Close() }()
	behind, err := net.Dial("tcp", manager)
	if err != nil {
		return
	}
	defer func() { _ = behind.Close() }()
	go func() { _, _ = io.Copy(behind, conn) }()
	_, _ = io.Copy(conn, behind)
}

// observed reconciles a pool in mode Observe once, with the given Secrets, and returns its status.
func observed(t *testing.T, manager v1alpha1.WorkQueueManager, secrets map[string][]byte) v1alpha1.WorkerPoolStatus {
	t.Helper()
	span := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	manager.PasswordSecret, manager.Timeout, manager.GoneAfter = &v1alpha1.SecretKey{Name: "makeflow", Key: "password"}, span(5*time.Second), span(time.Minute)
	pool := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "seen"}, Spec: v1alpha1.WorkerPoolSpec{
		Mode: v1alpha1.WorkerPoolObserve, Manager: manager,
		Worker:   v1alpha1.WorkerShape{Resources: &v1alpha1.WorkerResources{Cores: 3}, IdleTimeout: span(time.Second), DrainTimeout: span(time.Minute)},
		Template: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"worker","image":"cctools"}]}}`)},
		Limits:   v1alpha1.WorkerLimits{Max: 4},
		Scaling:  v1alpha1.WorkerScaling{Law: v1alpha1.WorkerLawSupercargo, Interval: span(time.Second), ExpectedInitTime: span(time.Minute)},
	}}
	pool.Spec.Worker.Resources.Memory.Set(4 << 30)
	c := fixtures.Client().WithStatusSubresource(pool).WithObjects(pool,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "makeflow"}, Data: secrets}).Build()
	r := &worker.Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(100), Clock: clock.RealClock{}}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pool)}); err != nil {
		t.Fatal(err)
	}
	testapi.Refresh(t, c, pool)
	return pool.Status
}

// watchThroughPools lets pools observe a manager with six waiting tasks.
func watchThroughPools(t *testing.T, flow workflow, address, catalog, project string) {
	t.Helper()
	secure, ca := startTLS(t, address)
	at := func(servers ...string) v1alpha1.WorkQueueManager {
		return v1alpha1.WorkQueueManager{Catalog: &v1alpha1.WorkQueueCatalog{Servers: servers, Project: project}}
	}
	trusting := v1alpha1.WorkQueueManager{Address: &secure, TLS: &v1alpha1.WorkQueueTLS{CASecret: &v1alpha1.SecretKey{Name: "makeflow", Key: "ca.crt"}}}
	word := []byte(flow.password)
	for _, tc := range []struct {
		name    string
		manager v1alpha1.WorkQueueManager
		secrets map[string][]byte
		address string // empty: it cannot be reached
		says    string
	}{
		{"by its address", v1alpha1.WorkQueueManager{Address: &address}, map[string][]byte{"password": word}, address, "answers"},
		{"without the line end of its password", v1alpha1.WorkQueueManager{Address: &address}, map[string][]byte{"password": word[:len(word)-1]}, "", "password: does not match that of the manager"},
		{"at the second of two catalog servers", at("127.0.0.1:1", catalog), map[string][]byte{"password": word}, address, "answers"},
		{"at catalog servers that are down", at("127.0.0.1:1"), map[string][]byte{"password": word}, "", "connection refused"},
		{"over TLS", trusting, map[string][]byte{"password": word, "ca.crt": ca}, secure, "answers"},
		{"over TLS, with a Secret that has no certificate", trusting, map[string][]byte{"password": word, "ca.crt": []byte("no certificate")}, "", "contains no PEM certificate"},
		{"without TLS", v1alpha1.WorkQueueManager{Address: &secure}, map[string][]byte{"password": word}, "", "password"},
	} {
		status := observed(t, tc.manager, tc.secrets)
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.PoolConnected)
		if c == nil || (c.Status == metav1.ConditionTrue) != (tc.address != "") || !strings.Contains(c.Message, tc.says) {
			t.Errorf("%s: %+v, want %q", tc.name, c, tc.says)
			continue
		}
		if tc.address != "" && (status.Queue == nil || status.Queue.Address != tc.address || status.Queue.Waiting != 6 || status.Queue.WorkersLost != 0 || status.LastDecision == nil || status.LastDecision.Add != 1) {
			t.Errorf("%s: queue %+v, decision %+v, want six tasks at %s and a first worker", tc.name, status.Queue, status.LastDecision, tc.address)
		}
	}
}
