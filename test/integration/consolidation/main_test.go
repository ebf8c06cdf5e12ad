//go:build soak

// Package consolidation runs a cluster of unequal machines that are half empty and keep changing, with all
// programs that move pods: the scheduler, the controller of Migrations, the mover, and the agents, which
// simulate the nodes together with kwok. It checks the guarantees at every change: no pod is lost and no work
// of a moved pod is repeated, no pod moves again before its residence time is over, no more nodes and pods
// are disrupted than the budget allows, and every cordoned node has a reason.
//
// With flags it runs for longer on more nodes, and then runs the same workload again with the stock
// descheduler instead of Supercargo's, and compares (make soak-consolidation).
//
// settings_test.go has sizes and times, workload_test.go creates the workload, cluster_test.go runs the
// control plane and the programs on it, shim_test.go simulates the work of pods, ledger_test.go observes,
// bill_test.go computes the cost, report_test.go reports.
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
	reportFlag = flag.String("report", "", "file for its outcome, as JSON")
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1")) }
