// Package migration tests Migrations on a real API server with the real Job controller
// and the real scheduler. Nodes are simulated by kwok, and their agents by a script that
// can be told to fail.
//
// All tests share one control plane. Each has a bench of it to itself: a namespace, some
// nodes that only its pods go to, and a descheduler that sees nothing else.
package migration

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane that most tests share; quiet has one without controllers,
// in which tests start the Job controller themselves.
var (
	sites = kit.NewSites(playground.Options{})
	quiet = kit.NewSites(playground.Options{NoControllerManager: true})
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "4", sites, quiet)) }
