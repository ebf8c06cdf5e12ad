package nodefleet

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// The namespace and the Secret of manifests/autoscaler/management-cluster.
const management, managementToken = "supercargo-management", "supercargo-autoscaler-token"

// managementBench returns a bench on a control plane with cluster-api, whose machines become nodes
// of the cluster of b. It has the account of the manifests.
func managementBench(b *bench) *bench {
	b.Helper()
	p := playground.ForTest(b.TB, playground.Options{ClusterAPI: true, NoScheduler: true, WorkloadKubeconfig: b.Site.KubeconfigPath()})
	c := kit.NewClient(b, p.Config())
	m := *b.Bench
	m.Site, m.WithWatch = &kit.Site{Playground: p, Client: c}, c
	const folder = "../../../manifests/autoscaler/management-cluster/"
	m.Site.Install(b.TB, folder+"namespace.yaml", folder+"account.yaml", folder+"rbac.yaml")
	m.Make(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kwok-machine-templates"}, Rules: []rbacv1.PolicyRule{{ // as the manifests have it for other providers
		APIGroups: []string{"infrastructure.playground.supercargo.dev"}, Resources: []string{"kwokmachinetemplates"}, Verbs: []string{"get"},
	}}})
	for _, role := range []string{"supercargo-machines-scaler", "kwok-machine-templates"} {
		m.Make(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: management, Name: account}},
		})
	}
	return &bench{&m}
}

// token returns the token of the account, once it is there.
func (b *bench) token() (token []byte) {
	b.Helper()
	b.Eventually("the account has a token", func() string {
		var secret corev1.Secret
		if err := b.Get(b.Context(), client.ObjectKey{Namespace: management, Name: managementToken}, &secret); err != nil {
			return err.Error()
		}
		if token = secret.Data[corev1.ServiceAccountTokenKey]; len(token) == 0 {
			return "not yet"
		}
		return ""
	})
	return token
}

// gate is the only way to the management cluster, which can be closed.
type gate struct {
	net.Listener
	mu    sync.Mutex
	open  bool
	conns map[net.Conn]bool
}

// newGate returns a closed one.
func newGate(b *bench, server string) *gate {
	b.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g := &gate{Listener: listener, conns: map[net.Conn]bool{}}
	b.Cleanup(func() { g.set(false); _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(conn, server)
		}
	}()
	return g
}

// pass copies both ways until one end or the gate is closed.
func (g *gate) pass(near net.Conn, server string) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp4", strings.TrimPrefix(server, "https://"))
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	g.mu.Lock()
	open := g.open
	g.conns[near], g.conns[far] = true, true
	g.mu.Unlock()
	if !open {
		return
	}
	go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
	_, _ = io.Copy(far, near)
}

// set opens or closes the gate.
func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
	if !open {
		for conn := range g.conns {
			_ = conn.Close()
		}
		clear(g.conns)
	}
}

// TestAFleetInAManagementClusterHoldsWhileThatCannotBeReached: the autoscaler starts without it, and
// outlasts an outage in which its token is replaced.
func TestAFleetInAManagementClusterHoldsWhileThatCannotBeReached(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, workloads, "apart")
	m := managementBench(b)
	m.flavor("small", "2", "4Gi", "0.10")
	folder, way := t.TempDir(), newGate(b, m.Site.Config().Host)
	writeToken := func() {
		testfile.Write(t, filepath.Join(folder, "token"), m.token())
	}
	writeToken()
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["management"] = &clientcmdapi.Cluster{Server: "https://" + way.Addr().String(), CertificateAuthorityData: m.Site.Config().CAData}
	kubeconfig.AuthInfos["autoscaler"] = &clientcmdapi.AuthInfo{TokenFile: "token"}
	kubeconfig.Contexts["management"] = &clientcmdapi.Context{Cluster: "management", AuthInfo: "autoscaler"}
	kubeconfig.CurrentContext = "management"
	if err := clientcmd.WriteToFile(*kubeconfig, filepath.Join(folder, "value")); err != nil {
		t.Fatal(err)
	}

	b.fleet("all", b.names("small"))
	requests := &kit.Ledger{}
	b.autoscale(func(o *app.Options) {
		var err error
		if o.ClusterAPIConfig, err = operator.Load(filepath.Join(folder, "value")); err != nil {
			t.Fatal(err)
		}
		o.ClusterAPIConfig.Wrap(requests.Wrap)
	})
	unreachable := func() {
		t.Helper()
		text := b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, "ProviderUnreachable")
		if !strings.Contains(text, "no machine is bought or released") {
			t.Errorf("the fleet says %q", text)
		}
	}
	unreachable()
	b.pods("p", 2, "1900m", "1Gi")
	b.wait(2)

	way.set(true)
	b.Runs(2)
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	if here, there := b.count()["small"], len(m.machines()); here != 2 || there != 2 {
		t.Errorf("there are %d nodes here and %d machines there, want 2 of each", here, there)
	}
	if nodes := m.Nodes(); len(nodes) != 0 {
		t.Errorf("%d nodes are in the management cluster", len(nodes))
	}

	way.set(false)
	b.removePods()
	unreachable()
	b.event("ProviderUnreachable")
	testapi.Delete(t, m, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: management, Name: managementToken}})
	m.Site.Install(t, "../../../manifests/autoscaler/management-cluster/account.yaml")
	writeToken()
	b.passed(3 * time.Second)
	if got := b.count()["small"]; got != 2 {
		t.Errorf("%d nodes are left during the outage, want both", got)
	}
	way.set(true)
	b.becomes(map[string]int{})
	b.Eventually("no machine is left", func() string {
		if left := m.machines(); len(left) > 0 {
			return left[0].GetName()
		}
		return ""
	})
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	if _, forbade := requests.Read(); len(forbade) > 0 {
		t.Errorf("forbidden in the management cluster: %v", forbade)
	}
}
