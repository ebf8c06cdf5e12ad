package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// leaving is a policy with the ways in which pods leave. It is compared with the variant without moves of the
// same group.
type leaving struct {
	group, ways string
	policy      sim.Policy
}

func leavings() []leaving {
	const wait, migrate, evict = cluster.Wait, cluster.Migrate, cluster.Evict
	return []leaving{
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

// consolidation runs the experiments of the HTAS paper with one policy and different ways in which pods leave drained
// machines: not at all, by eviction, by migration, and by the cheapest way for each. It prints the savings, the number
// of moved pods and the lost work, as means over the seeds, in a Markdown table.
type consolidation struct{ experiments }

func consolidationCommand() *cobra.Command {
	var o consolidation
	cmd := &cobra.Command{
		Use: "consolidation", Short: "Have pods leave drained machines by eviction, migration or both", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *consolidation) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	fmt.Println("| load | policy | pods leave by | dollars | saved, % | migrations / evictions | lost work, min | wait, s |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, pattern := range patterns {
		without := map[string]figures{}
		for _, v := range leavings() {
			f, err := v.run(ctx, filepath.Join(o.dir, "htas-"+pattern+".yaml"), o.seeds)
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
func (v leaving) run(ctx context.Context, file string, seeds int) (figures, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := scenario.Read(file, text, nil)
	if err != nil {
		return nil, err
	}
	all, err := simulate(ctx, s, seeds, v.policy)
	return all[0], err
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
