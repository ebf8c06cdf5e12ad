package nodefleet

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane with cluster-api that all tests share.
var sites = kit.NewSites(playground.Options{ClusterAPI: true})

// workloads has the control plane of a cluster whose machines are in another.
var workloads = kit.NewSites(playground.Options{NoKwok: true})

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "6", sites, converting, workloads)) }

// makeNamespace creates the namespace of a bench, with the service account of its pods.
func (b *bench) makeNamespace() {
	b.Helper()
	b.make(kit.Namespace(b.name))
	b.eventually("pods can be made", func() string {
		var account corev1.ServiceAccount
		if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.name, Name: "default"}, &account); err != nil {
			return err.Error()
		}
		return ""
	})
}
