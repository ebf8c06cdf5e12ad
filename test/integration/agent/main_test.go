// Package agent tests node agents against a real API server. The nodes are simulated. The tests write the
// orders instead of the controller and the scheduler.
package agent

import (
	"os"
	"testing"
	"time"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// poll is the polling interval of tests.
const poll = 20 * time.Millisecond

// sites has the API server that all tests share.
var sites = kit.NewSites(playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})

// Tests run one after another, unless the flag specifies otherwise.
func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1", sites)) }
