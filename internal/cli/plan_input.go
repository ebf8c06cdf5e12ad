package cli

import (
	"cmp"
	"context"
	"io"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/trace"
)

// planRequest is what is to be planned.
type planRequest struct {
	pods    []planner.Pod
	flavors []planner.Flavor
}

// What a flavor has that does not say so, as in scenarios.
const (
	defaultArch    = "amd64"
	defaultMaxPods = 110
)

// readPods reads the pods. It waits for stdin as long as ctx lasts.
func (r *planRequest) readPods(ctx context.Context, path string, stdin io.Reader) error {
	read := func(name string, in io.Reader) error {
		list, err := trace.ReadPodList(name, in)
		if err != nil {
			return err
		}
		for _, p := range list.Pods {
			// Without its runtime: what is low is the price per hour.
			item := packing.Item{Name: p.Name, Size: packing.Size{MemoryBytes: p.MemoryBytes, MilliCPU: p.MilliCPU}}
			r.pods = append(r.pods, planner.Pod{Item: item, Arch: p.Arch})
		}
		return nil
	}
	if path == "-" {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return read("stdin", untilDone(ctx, stdin))
	}
	return readNamed("--pods", path, func(in io.Reader) error { return read(path, in) })
}

// readFlavors reads the machines that can be bought.
func (r *planRequest) readFlavors(path string) error {
	return readNamed("--flavors", path, func(in io.Reader) error {
		list, err := trace.ReadFlavors(path, in)
		for _, f := range list {
			r.flavors = append(r.flavors, planner.Flavor{
				Name: f.Name, Size: packing.Size{MemoryBytes: f.MemoryBytes, MilliCPU: f.MilliCPU},
				MaxPods: cmp.Or(f.MaxPods, defaultMaxPods), Arch: cmp.Or(f.Arch, defaultArch),
				MicroDollarsPerHour: f.MicroDollarsPerHour,
			})
		}
		return err
	})
}
