package moves

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// crowd is a cluster of nodes with ten jobs each that fill the given share of them.
func crowd(nodes int, share float64) *cluster.State {
	r := rand.New(rand.NewPCG(1, 1))
	s := state()
	s.MaxNodes = 2 * nodes
	for i := range nodes {
		n := node(fmt.Sprintf("node-%05d", i))
		n.Capacity = size(16_000, 64<<30)
		n.Age = time.Duration(r.Int64N(int64(time.Hour)))
		for j := range 10 {
			most := size(int64(2*share*1600), int64(2*share*(64<<30)/10))
			p := job(fmt.Sprintf("pod-%05d-%d", i, j), r.Int64N(most.MilliCPU), r.Int64N(most.MemoryBytes))
			p.Runtime = time.Duration(r.Int64N(int64(time.Hour)))
			n.Pods = append(n.Pods, p)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func BenchmarkPlan(b *testing.B) {
	for _, bench := range []struct {
		name   string
		config Config
		share  float64
	}{
		{"half used, where it pays", Config{Threshold: 1, Cycle: 5 * time.Minute, Worthwhile: true}, 0.5},
		{"half used, under a half", Config{Threshold: 0.5, Cycle: 5 * time.Minute}, 0.5},
		{"nearly empty", Config{Threshold: 0.5, Cycle: 5 * time.Minute}, 0.1},
		{"nearly full", Config{Threshold: 1, Cycle: 5 * time.Minute, Worthwhile: true}, 0.8},
		{"nothing to do", Config{Threshold: 0.1}, 0.5},
	} {
		for _, n := range []int{250, 1000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", bench.name, n), func(b *testing.B) {
				s := crowd(n, bench.share)
				drains := 0
				b.ReportAllocs()
				for b.Loop() {
					drains = len(NewPlanner(bench.config).Plan(noon, s).Drains)
				}
				b.ReportMetric(float64(drains), "drains")
			})
		}
	}
}
