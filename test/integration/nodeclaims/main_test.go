package nodeclaims

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane that all tests share, without cluster-api and without Karpenter's CRDs at first.
var sites = kit.NewSites(playground.Options{})

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1", sites)) }
