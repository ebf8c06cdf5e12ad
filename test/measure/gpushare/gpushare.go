// Package gpushare measures how much of the GPUs of a cluster each policy leaves unusable, with the nodes and pods of the openb
// trace.
package gpushare

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing/gpus"
	"supercargo.dev/supercargo/lab/gpushare"
)

// Command returns the subcommand.
func Command() *cobra.Command {
	var data string
	var seeds int
	var only []string
	cmd := &cobra.Command{
		Use:   "gpushare",
		Short: "Fill the cluster of the openb trace by each policy, and print what of its GPUs is allocated and what is unusable",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seeds < 1 {
				return errors.New("--seeds: must be at least 1")
			}
			nodes, pods, err := read(data)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "| policy | pods placed | GPUs allocated, 100 %% requested | unusable | GPUs allocated, 130 %% requested | unusable |\n|---|---|---|---|---|---|\n")
			for _, p := range gpushare.Policies() {
				if len(only) > 0 && !slices.Contains(only, p.Name) {
					continue
				}
				var runs []gpushare.Run
				for seed := range seeds {
					runs = append(runs, gpushare.Fill(nodes, pods, p, uint64(seed+1)))
				}
				fmt.Fprintln(out, row(p.Name, runs))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", filepath.Join("test", "data", "openb"), "folder with nodes.csv and pods-all.csv")
	cmd.Flags().IntVar(&seeds, "seeds", 10, "number of draws of pods")
	cmd.Flags().StringSliceVar(&only, "policies", nil, "names of policies (default: all)")
	return cmd
}

// read returns the nodes and the requests of the pods in a folder.
func read(folder string) ([]gpushare.Node, []gpus.Request, error) {
	file, err := os.Open(filepath.Join(folder, "nodes.csv"))
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	nodes, err := gpushare.ReadNodes(file)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(folder, "pods-all.csv")
	list, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer list.Close()
	all, err := trace.ReadPods(path, list)
	if err != nil {
		return nil, nil, err
	}
	pods := make([]gpus.Request, len(all))
	for i, p := range all {
		pods[i] = gpus.Request{MilliCPU: p.Size.MilliCPU, MemoryBytes: p.Size.MemoryBytes, Milli: p.MilliGPUs}
	}
	return nodes, pods, nil
}

// row returns the means of runs, and the standard deviation of what is allocated at the end.
func row(name string, runs []gpushare.Run) string {
	mean := func(of func(gpushare.Run) float64) float64 {
		sum := 0.0
		for _, r := range runs {
			sum += of(r)
		}
		return sum / float64(len(runs))
	}
	allocated := func(r gpushare.Run) float64 { return 100 * r.AtEnd.Allocated }
	middle := mean(allocated)
	spread := math.Sqrt(mean(func(r gpushare.Run) float64 { return (allocated(r) - middle) * (allocated(r) - middle) }))
	return fmt.Sprintf("| %s | %.1f %% | %.1f %% | %.1f %% | %.1f ± %.1f %% | %.1f %% |", name,
		mean(func(r gpushare.Run) float64 { return 100 * float64(r.AtEnd.Placed) / float64(r.AtEnd.Arrived) }),
		mean(func(r gpushare.Run) float64 { return 100 * r.AtCapacity.Allocated }),
		mean(func(r gpushare.Run) float64 { return 100 * r.AtCapacity.Unusable }),
		middle, spread,
		mean(func(r gpushare.Run) float64 { return 100 * r.AtEnd.Unusable }))
}
