//go:build nodes

// Package agent tests node agents on real nodes, with containerd, CRIU and kubelets. The tests write the
// orders instead of the controller and the scheduler.
package agent

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
)

// The timeout of a wait, and its polling interval.
const (
	patience = 5 * time.Minute
	poll     = 50 * time.Millisecond
)

// theFleet is started by the first test that needs it. All tests share it.
var theFleet = sync.OnceValues(startFleet)

var started bool

// TestMain stops the fleet.
func TestMain(m *testing.M) {
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

func startFleet() (*fleet.Fleet, error) {
	started = true
	return fleet.Start(context.Background(), fleet.Config{Parts: []string{"agent"}})
}
