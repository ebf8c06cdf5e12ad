package nodeclaims

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane that most tests share, without cluster-api.
var sites = kit.NewSites(playground.Options{})

// without has a control plane on which no Karpenter runs. Its CRDs are not installed at first.
var without = kit.NewSites(playground.Options{NoKwok: true, NoScheduler: true})

// defined has a control plane with nothing but the API server, for the definitions of the providers.
var defined = kit.NewSites(playground.Options{NoKwok: true, NoScheduler: true, NoControllerManager: true})

func TestMain(m *testing.M) {
	code := kit.Main(m, "6", sites, without, defined)
	endCommon()
	os.Exit(code)
}
