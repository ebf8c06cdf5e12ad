//go:build nodes

package migration

import (
	"flag"
	"os"
	"testing"

	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
)

var benchReport = flag.String("bench-report", "", "file for the durations of moves, as JSON")

var shared = fleet.NewShared(func() (fleet.Config, error) {
	flags, err := evictionFlags()
	return fleet.Config{
		Parts: []string{"agent", "descheduler", "evictions/base"}, Descheduler: true, DeschedulerFlags: []string{"--max-migrations-per-node", "4"}, EvictionFlags: flags,
	}, err
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
