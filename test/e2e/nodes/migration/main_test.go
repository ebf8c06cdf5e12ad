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

var (
	benchReport  = flag.String("bench-report", "", "file for the durations of moves, as JSON")
	benchRate    = flag.String("bench-rate", "", "rate of the network of each node in benchmarks, such as 1gbit")
	presendAbove = flag.String("presend-above", "", "flag of that name of the agents")
)

var shared = fleet.NewShared(func() (fleet.Config, error) {
	flags, err := evictionFlags()
	var agentFlags []string
	if *presendAbove != "" {
		agentFlags = []string{"--presend-above", *presendAbove}
	}
	return fleet.Config{
		AgentFlags: agentFlags,
		Parts:      []string{"agent", "descheduler", "evictions/base"}, Descheduler: true, DeschedulerFlags: []string{"--max-migrations-per-node", "4"}, EvictionFlags: flags,
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
