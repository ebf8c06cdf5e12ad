// Command consolidation runs the experiments of the HTAS paper with one policy and different ways in which
// pods leave drained machines: not at all, by eviction, by migration, and by the cheapest way for each. It
// prints the savings, the number of moved pods and the lost work, as means over some seeds. The output is a
// Markdown table for docs/benchmarks.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

var patterns = []string{"stable", "growing", "cycle", "on-off"}

// variant is a policy with the ways in which pods leave. It is compared with the variant without moves of the
// same group.
type variant struct {
	group, ways string
	policy      sim.Policy
}

func variants() []variant {
	const wait, migrate, evict = cluster.Wait, cluster.Migrate, cluster.Evict
	return []variant{
		{"htas", "none", policy.HTASMoving(wait)},
		{"htas", "evict", policy.HTASMoving(evict)},
		{"htas", "migrate", policy.HTASMoving(migrate)},
		{"supercargo", "none", policy.SupercargoWith(cluster.WaysOf(wait))},
		{"supercargo", "evict", policy.SupercargoWith(cluster.WaysOf(evict))},
		{"supercargo", "migrate", policy.SupercargoWith(cluster.WaysOf(migrate))},
		{"supercargo", "wait, evict", policy.SupercargoWith(cluster.WaysOf(wait, evict))},
		{"supercargo", "wait, migrate", policy.SupercargoWith(cluster.WaysOf(wait, migrate))},
		{"supercargo", "migrate, evict", policy.SupercargoWith(cluster.WaysOf(migrate, evict))},
		{"supercargo", "wait, migrate, evict", policy.SupercargoWith(cluster.WaysOf(wait, migrate, evict))},
	}
}

func main() {
	dir := flag.String("scenarios", "test/scenarios", "folder of the htas-*.yaml scenarios")
	seeds := flag.Int("seeds", 10, "how many seeds, from 1 on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	klog.SetLogger(logr.Discard())
	err := run(ctx, *dir, *seeds)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "consolidation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, seeds int) error {
	if seeds < 1 {
		return fmt.Errorf("-seeds is %d, want at least 1", seeds)
	}
	fmt.Println("| load | policy | pods leave by | dollars | saved, % | migrations / evictions | lost work, min | wait, s |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, pattern := range patterns {
		without := map[string]figures{}
		for _, v := range variants() {
			f, err := v.run(ctx, filepath.Join(dir, "htas-"+pattern+".yaml"), seeds)
			if err != nil {
				return fmt.Errorf("%s, %s by %s: %w", pattern, v.group, v.ways, err)
			}
			if v.ways == "none" {
				without[v.group] = f
			}
			fmt.Printf("| %s | %s | %s | %s |\n", pattern, v.group, v.ways, f.row(without[v.group]))
		}
	}
	return nil
}

// figures contains the results of one variant, one per seed.
type figures []sim.Result

// run simulates the variant with all seeds.
func (v variant) run(ctx context.Context, file string, seeds int) (figures, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := scenario.Read(file, text, nil)
	if err != nil {
		return nil, err
	}
	all := make(figures, seeds)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all {
		group.Go(func() error {
			seed := uint64(i + 1)
			pods, err := s.Arrivals(seed)
			if err != nil {
				return err
			}
			r, err := sim.Run(ctx, sim.Input{Scenario: s, Pods: pods, Seed: seed, Policy: v.policy})
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			all[i] = *r
			return nil
		})
	}
	return all, group.Wait()
}

// row returns the means, and the savings over another variant.
func (f figures) row(without figures) string {
	n := float64(len(f))
	var dollars, saved, moved, evicted, lost, waited float64
	for i := range f {
		r := &f[i]
		dollars += float64(r.CostMicroDollars) / 1e6 / n
		saved += 100 * (1 - float64(r.CostMicroDollars)/float64(without[i].CostMicroDollars)) / n
		moved += float64(r.Migrations) / n
		evicted += float64(r.Evictions) / n
		lost += r.LostWork.Minutes() / n
		var sum time.Duration
		for _, w := range r.Waits {
			sum += w
		}
		waited += sum.Seconds() / float64(max(1, len(r.Waits))) / n
	}
	return fmt.Sprintf("%.3f | %.1f | %.0f / %.0f | %.1f | %.0f", dollars, saved, moved, evicted, lost, waited)
}
