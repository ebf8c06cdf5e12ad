//go:build soak

// Package consolidation runs a cluster of unequal machines that are half empty and keep
// changing, with everything on that moves pods: the scheduler, the controller of
// Migrations, the mover, and the agents, which play the nodes beside kwok. It watches what
// is promised at every change: no pod is lost and no work of a moved one repeated, no pod
// moves again before its residence is over, no more nodes and pods are on their way than
// the budget allows, and every node that is closed has its reason.
//
// By flags it runs for longer on more nodes, and then runs the same work again with the
// stock descheduler in the place of ours, and compares (make soak-consolidation).
//
// settings_test.go says how large and how fast everything is, workload_test.go makes the
// work, cluster_test.go the control plane and what runs on it, shim_test.go has pods do
// their work, ledger_test.go watches, bill_test.go computes, report_test.go tells.
package consolidation

import (
	"flag"
	"os"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit"
)

var (
	nodesFlag  = flag.Int("nodes", 30, "how many nodes there are")
	lastsFlag  = flag.Duration("lasts", 75*time.Second, "for how long work arrives")
	paceFlag   = flag.Float64("pace", 0.2, "what times are multiplied with: of the work, and of what the descheduler waits for")
	seedFlag   = flag.Uint64("seed", 1, "of the work")
	stockFlag  = flag.String("stock", "", "stock descheduler to compare with (make bin/descheduler-peer); empty compares with nothing")
	reportFlag = flag.String("report", "", "file for what came of it, as JSON")
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1")) }
