//go:build workers

package workers

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane with cluster-api, for the tests that need one.
var sites = kit.NewSites(playground.Options{ClusterAPI: true})

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "2", sites)) }
