package nodeclaims

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane that most tests share, without cluster-api.
var sites = kit.NewSites(playground.Options{})

// without has a control plane on which no Karpenter runs. Its CRDs are not installed at first.
var without = kit.NewSites(playground.Options{NoKwok: true, NoScheduler: true})

// defined has a control plane with nothing but the API server, for the definitions of the providers.
var defined = kit.NewSites(playground.Options{NoKwok: true, NoScheduler: true, NoControllerManager: true})

// launching has a control plane that runs Karpenter itself, as supercargo playground --machines karpenter does.
var launching = kit.NewSites(playground.Options{Karpenter: &playground.KarpenterOptions{Flavors: []catalogue.Flavor{
	{Flavor: cluster.Flavor{Name: "c-2x", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 4 << 30}}},
	{Flavor: cluster.Flavor{Name: "c-8x", Size: packing.Size{MilliCPU: 8000, MemoryBytes: 16 << 30}}},
}}})

func TestMain(m *testing.M) {
	code := kit.Main(m, "6", sites, without, defined, launching)
	endCommon()
	os.Exit(code)
}
