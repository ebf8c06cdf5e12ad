// Package migration tests Migrations on a real API server with the real Job controller and the real
// scheduler. kwok simulates the nodes, and a script that can be told to fail simulates their agents.
//
// All tests share one control plane. Each test has its own bench: a namespace, some nodes for only its pods,
// and a descheduler that sees nothing else.
package migration

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane that most tests share. quiet has one without controllers, in which tests start
// the Job controller themselves.
var (
	sites = kit.NewSites(playground.Options{})
	quiet = kit.NewSites(playground.Options{NoControllerManager: true})
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "4", sites, quiet)) }
