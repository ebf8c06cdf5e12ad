//go:build nodes

package migration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
)

var (
	killPoints = flag.Int("kill-points", 12, "how many of the kill points are tried; 0 for all")
	killSeed   = flag.Uint64("kill-seed", 0, "chooses and orders the kill points")
	killReport = flag.String("kill-report", "", "file for the outcome of each kill point, as JSON")

	benchReport = flag.String("bench-report", "", "file for what moves took, as JSON")
)

// theFleet is started by the first test that needs it. All tests share it; a test that kills a part starts it
// again.
var theFleet = sync.OnceValues(func() (*fleet.Fleet, error) {
	flags, err := evictionFlags()
	if err != nil {
		return nil, err
	}
	return fleet.Start(context.Background(), fleet.Config{
		Parts: []string{"agent", "descheduler", "evictions/base"}, Descheduler: true, DeschedulerFlags: []string{"--max-migrations-per-node", "4"}, EvictionFlags: flags,
	})
})

var started bool

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if started {
		if f, err := theFleet(); err == nil {
			if err := f.Stop(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// town is the fleet as used by one test.
type town struct {
	*moves.Town
	fleet *fleet.Fleet
}

func newTown(tb testing.TB) *town {
	tb.Helper()
	started = true
	f, err := theFleet()
	if err != nil {
		tb.Fatal(err)
	}
	return &town{&moves.Town{Site: site.New(tb, f.Cluster), Objects: f.Objects}, f}
}
