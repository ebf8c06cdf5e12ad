//go:build nodes

// Package agent tests node agents on real nodes, with containerd, CRIU and kubelets. The tests write the
// orders instead of the controller and the scheduler.
package agent

import (
	"os"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
)

// The timeout of a wait, and its polling interval.
const (
	patience = 5 * time.Minute
	poll     = 50 * time.Millisecond
)

var shared = fleet.NewShared(func() (fleet.Config, error) { return fleet.Config{Parts: []string{"agent"}}, nil })

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
