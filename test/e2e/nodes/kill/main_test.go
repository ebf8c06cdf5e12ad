//go:build nodes

// Package kill tests that a migration survives the death of every part at every step, on real nodes.
package kill

import (
	"flag"
	"os"
	"testing"

	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
)

var (
	killPoints = flag.Int("kill-points", 12, "how many of the kill points are tried; 0 for all")
	killSeed   = flag.Uint64("kill-seed", 0, "chooses and orders the kill points")
	killOnly   = flag.String("kill-only", "", "try only kill points whose name contains this")
	killReport = flag.String("kill-report", "", "file for the outcome of each kill point, as JSON")
)

var shared = fleet.NewShared(func() (fleet.Config, error) {
	return fleet.Config{
		Parts: []string{"agent", "descheduler"}, Descheduler: true, DeschedulerFlags: []string{"--max-migrations-per-node", "4"},
	}, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(shared.Main(m))
}

// town is the fleet as used by one test.
type town struct {
	*moves.Town
	fleet *fleet.Fleet
}

func newTown(tb testing.TB) *town {
	tb.Helper()
	f := shared.Get(tb)
	return &town{&moves.Town{Site: site.New(tb, f.Cluster), Objects: f.Objects}, f}
}
