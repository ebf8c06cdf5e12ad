package nodeclaims

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane that all tests but one share, without cluster-api.
var sites = kit.NewSites(playground.Options{})

// without has a control plane on which Karpenter is not installed at first.
var without = kit.NewSites(playground.Options{NoKwok: true, NoScheduler: true})

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1", sites, without)) }
