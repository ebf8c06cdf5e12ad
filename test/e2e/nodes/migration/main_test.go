//go:build nodes

package migration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
)

var (
	killPoints = flag.Int("kill-points", 12, "how many of the kill points are tried; 0 for all")
	killSeed   = flag.Uint64("kill-seed", 0, "chooses and orders the kill points")
	killReport = flag.String("kill-report", "", "file for what came of each kill point, as JSON")
)

// theFleet is started by the first test that needs it. All share it; a test that kills
// something puts it up again.
var theFleet = sync.OnceValues(func() (*fleet, error) { return startFleet(context.Background()) })

var started bool

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if started {
		if f, err := theFleet(); err == nil {
			if err := f.stop(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// fleet is a cluster of real nodes with everything that moves pods.
type fleet struct {
	*cluster.Cluster
	agents     map[string]*cluster.Program // by node
	controller *program
	kinds      client.Client // knows Migrations
}

// town is the fleet in the hands of one test.
type town struct {
	*site.Site
	fleet *fleet
}

func newTown(tb testing.TB) *town {
	tb.Helper()
	started = true
	f, err := theFleet()
	if err != nil {
		tb.Fatal(err)
	}
	return &town{site.New(tb, f.Cluster), f}
}

func (f *fleet) stop(ctx context.Context) error {
	var errs []error
	for _, agent := range f.agents {
		errs = append(errs, agent.Stop(ctx))
	}
	if f.controller != nil {
		errs = append(errs, f.controller.stop(ctx))
	}
	return errors.Join(append(errs, f.Down(ctx))...)
}
