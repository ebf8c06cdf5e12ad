package nodeclaims

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit"
)

// Karpenter is killed just after its first write about the machine, after its second, and so on from the launch to the
// termination, until a run has no such write. Another Karpenter continues. The fleet must have one machine while there is
// a pod, and none after that. It buys a second one only if the first was lost: if the cloud had not begun to make what
// Karpenter recorded as launched.
func TestWhereverKarpenterIsKilledAmongItsWritesNothingIsBoughtTwiceOrForgotten(t *testing.T) {
	const atOnce = 1 // because no other Karpenter may run
	n := kit.KillAtEveryWrite(t, atOnce, func(t *testing.T, name string, c *kit.Cut) {
		b := newBench(t, "karpenter-"+name)
		b.install()
		b.class("0s")
		b.prices("small,2,4,0.10", "dear,2,4,0.11")
		ever := b.claimsEver()
		registered := b.claimsEverThat(func(c *unstructured.Unstructured) bool { return isTrue(c, "Registered") })
		b.fleet(func(s *v1alpha1.NodeFleetSpec) { s.Scaling.JoinTimeout = seconds(20) })
		b.autoscale()
		b.karpenterAgainAfter(c)
		b.pods("p", 1, "1900m", "1Gi")
		b.Runs(1)
		b.Eventually("there is one machine", func() string {
			if claims, nodes := len(b.nodeClaims()), len(b.Nodes()); claims != 1 || nodes != 1 {
				return fmt.Sprintf("%d NodeClaims and %d nodes", claims, nodes)
			}
			return ""
		})
		b.removePods()
		b.becomes(map[string]int{})
		switch names := ever(); {
		case len(names) == 2:
			b.HasEvent("NodeFleet", b.Space, v1alpha1.FleetReasonMachineAbandoned, "")
		case len(names) != 1:
			t.Errorf("NodeClaims %q were created, want one", names)
		}
		if names := registered(); len(names) != 1 {
			t.Errorf("NodeClaims %q became machines, want one", names)
		}
	})
	if n < 10 || n > 60 {
		t.Errorf("the run without a Karpenter killed has %d writes", n)
	}
}

// karpenterAgainAfter runs a Karpenter, and another when its connection is cut at a write about a machine.
func (b *bench) karpenterAgainAfter(c *kit.Cut) {
	b.Helper()
	c.Match = func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/api/v1/nodes") || strings.HasPrefix(r.URL.Path, "/apis/karpenter.sh/v1/nodeclaims/")
	}
	first := b.karpenterOf(current, b.proxied(c))
	b.runs(first)
	stop := func() error { first.kill(); return nil }
	b.StartAfterCut("Karpenter", c, stop, func() {
		b.terminateUnknown()
		b.runs(b.ownKarpenter())
	})
}

// proxied returns the path of a kubeconfig for the API server, over a connection that may break.
func (b *bench) proxied(c *kit.Cut) string {
	b.Helper()
	config := b.Site.Config()
	transport, err := rest.TransportFor(config)
	if err != nil {
		b.Fatal(err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		b.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport:     c.Wrap(transport),
		FlushInterval: -1, // for watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	b.Cleanup(proxy.Close)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["proxy"] = &clientcmdapi.Cluster{Server: proxy.URL}
	kubeconfig.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	kubeconfig.CurrentContext = "proxy"
	path := filepath.Join(b.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		b.Fatal(err)
	}
	return path
}

// terminateUnknown deletes the nodes that no NodeClaim has: those that were launched by a Karpenter that died before it
// recorded that. The providers of real clouds terminate such machines, and that of the tests does not.
func (b *bench) terminateUnknown() {
	b.Helper()
	known := map[string]bool{}
	for _, c := range b.nodeClaims() {
		id, _, _ := unstructured.NestedString(c.Object, "status", "providerID")
		known[id] = true
	}
	for _, n := range b.Nodes() {
		if known[n.Spec.ProviderID] {
			continue
		}
		if err := b.Delete(b.Context(), &n); client.IgnoreNotFound(err) != nil {
			b.Fatal(err)
		}
	}
}
