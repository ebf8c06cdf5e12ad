package nodefleet

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane with cluster-api that all tests share.
var sites = kit.NewSites(playground.Options{ClusterAPI: true})

// workloads has the control plane of a cluster whose machines are in another.
var workloads = kit.NewSites(playground.Options{NoKwok: true})

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "6", sites, converting, workloads)) }
