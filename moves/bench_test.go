package moves

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// crowd returns a cluster of nodes with ten jobs each that fill the given share of them.
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
		config DrainConfig
		share  float64
	}{
		{"half used, where it pays", DrainConfig{Threshold: 1, Cycle: 5 * time.Minute, Worthwhile: true}, 0.5},
		{"half used, under a half", DrainConfig{Threshold: 0.5, Cycle: 5 * time.Minute}, 0.5},
		{"nearly empty", DrainConfig{Threshold: 0.5, Cycle: 5 * time.Minute}, 0.1},
		{"nearly full", DrainConfig{Threshold: 1, Cycle: 5 * time.Minute, Worthwhile: true}, 0.8},
		{"nothing to do", DrainConfig{Threshold: 0.1}, 0.5},
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

// demanding gives one pod in four constraints on other pods, and the nodes three zones.
func demanding(s *cluster.State) *cluster.State {
	d := newDemands()
	for i := range s.Nodes {
		s.Nodes[i] = located(s.Nodes[i], []string{"x", "y", "z"}[i%3])
		for j := range s.Nodes[i].Pods {
			app := fmt.Sprintf("app-%d", (i+j)%200)
			all := []demand{}
			if j%4 == 0 {
				all = append(all, apartFrom(app, hostname), spreadOver(zone, app))
			}
			s.Nodes[i].Pods[j] = d.on(s.Nodes[i].Pods[j], app, all...)
		}
	}
	return s
}

func BenchmarkPlanWithDemands(b *testing.B) {
	for _, n := range []int{200, 1000} {
		for _, share := range []float64{0.1, 0.5} {
			for _, explain := range []bool{false, true} {
				b.Run(fmt.Sprintf("nodes=%d/share=%v/explain=%t", n, share, explain), func(b *testing.B) {
					s := demanding(crowd(n, share))
					drains := 0
					b.ReportAllocs()
					for b.Loop() {
						drains = len(NewPlanner(DrainConfig{Threshold: 0.5, Method: cluster.Evict, Explain: explain}).Plan(noon, s).Drains)
					}
					b.ReportMetric(float64(drains), "drains")
				})
			}
		}
	}
}

// firstFit buys the machine with the best rate repeatedly, so that the benchmark measures the search and not the buyer.
func firstFit(pods []cluster.Pod, _ []cluster.Node, flavors []cluster.Flavor, most int) (buy []cluster.Purchase, _ []cluster.Move, ok bool) {
	f := flavors[len(flavors)-1]
	var free []packing.Size
	for _, p := range pods {
		at := slices.IndexFunc(free, p.Size.Fits)
		if at < 0 {
			at = len(free)
			free = append(free, f.Size)
			buy = append(buy, cluster.Purchase{Flavor: f.Name, Class: class.Any})
		}
		free[at] = free[at].Minus(p.Size)
		buy[at].Pods = append(buy[at].Pods, p.Name)
	}
	return buy, nil, len(buy) <= most
}

func BenchmarkExchange(b *testing.B) {
	for _, n := range []int{200, 1000} {
		for _, share := range []float64{0.3, 0.7} {
			for _, name := range []string{"plain", "demanding"} {
				s := crowd(n, share)
				if name == "demanding" {
					s = demanding(s)
				}
				for _, limit := range []int{n / 10, 0} {
					b.Run(fmt.Sprintf("nodes=%d/share=%v/%s/limit=%d", n, share, name, limit), func(b *testing.B) {
						s.Flavors = []cluster.Flavor{
							{Name: "half", Size: size(8_000, 32<<30), Arch: "amd64", MicroDollarsPerHour: 33_000_000},
							{Name: "twice", Size: size(32_000, 128<<30), Arch: "amd64", MicroDollarsPerHour: 90_000_000},
						}
						var all []cluster.Exchange
						calls := 0
						b.ReportAllocs()
						for b.Loop() {
							calls = 0
							all = Exchange(s, ExchangeConfig{Horizon: time.Hour, Method: cluster.Evict, Limit: limit}, func(
								pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) ([]cluster.Purchase, []cluster.Move, bool) {
								calls++
								return firstFit(pods, nodes, flavors, most)
							})
						}
						var gain int64
						for _, e := range all {
							gain += e.Saves - e.Costs
						}
						b.ReportMetric(float64(len(all)), "exchanges")
						b.ReportMetric(float64(calls), "calls")
						b.ReportMetric(float64(gain)/1e6, "dollars")
					})
				}
			}
		}
	}
}
