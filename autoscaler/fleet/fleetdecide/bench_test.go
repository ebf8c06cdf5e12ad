package fleetdecide

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// crowd is a cluster of n nodes, full of jobs, with n pending jobs and n that arrived within the last two minutes.
func crowd(nodes, waiting, recent int) *cluster.State {
	r := rand.New(rand.NewPCG(1, 1))
	draw := func(name string) cluster.Pod {
		p := job(name, 0, time.Duration(r.Int64N(int64(12*minute))))
		p.Size = size(50+r.Int64N(500), (1+r.Int64N(10))<<28)
		p.Arrival = time.Duration(r.Int64N(int64(time.Hour)))
		return p
	}
	s := state(nil)
	for i := range nodes {
		n := node(fmt.Sprintf("n%05d", i))
		n.Capacity, n.Age = size(4000, 16<<30), time.Duration(r.Int64N(int64(time.Hour)))
		for j := range 10 {
			n.Pods = append(n.Pods, draw(fmt.Sprintf("%s-%d", n.Name, j)))
		}
		if i%10 == 0 {
			n.Pods = nil
		}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range waiting {
		s.Pending = append(s.Pending, draw(fmt.Sprintf("p%05d", i)))
	}
	for i := range recent {
		s.Recent = append(s.Recent, ago(draw(fmt.Sprintf("r%05d", i)), 2*minute*time.Duration(i)/time.Duration(recent)))
	}
	s.Observed, s.MaxNodes = 7*minute, 4*nodes
	s.Flavors = nil
	for _, gib := range []int64{1, 2, 4, 8, 16, 32} {
		f := flavor(fmt.Sprintf("f%d", gib), 0, 20_000*gib)
		f.Size, f.MaxPods = size(250*gib, gib<<30), new(int64(110))
		s.Flavors = append(s.Flavors, f)
	}
	return s
}

func BenchmarkRound(b *testing.B) {
	for _, bench := range []struct {
		name                   string
		nodes, waiting, recent int
	}{
		{"steady", 1000, 100, 2000},
		{"burst", 1000, 10_000, 0},
		{"growing", 1000, 5000, 5000},
		{"steady", 250, 25, 500},
		{"burst", 250, 2500, 0},
		{"growing", 250, 1250, 1250},
	} {
		s := crowd(bench.nodes, bench.waiting, bench.recent)
		for name, buy := range map[string]bool{"buy": true, "release": false} {
			b.Run(fmt.Sprintf("%s/%s/nodes=%d", name, bench.name, bench.nodes), func(b *testing.B) {
				b.ReportAllocs()
				o, machines := all(), 0
				if o.Buy = buy; !buy {
					s.Pending = nil
				}
				for b.Loop() {
					d := Fleet(s, o, mover(), midnight)
					machines = len(d.Plan.Machines) + len(d.Release)
				}
				b.ReportMetric(float64(machines), "machines")
			})
		}
	}
}
