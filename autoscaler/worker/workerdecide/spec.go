package workerdecide

import (
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// ConfigOf returns the configuration for a spec, which must have the defaults of its kind. Flavors has the size from
// the spec. It is empty for a pool that names a NodeFleet; the caller must add the flavors then.
func ConfigOf(spec *v1alpha1.WorkerPoolSpec) Config {
	c := Config{
		Law: Law(spec.Scaling.Law), Min: int(spec.Limits.Min), Max: int(spec.Limits.Max), Cycle: spec.Scaling.Interval.Duration,
		Prior: spec.Scaling.ExpectedInitTime.Duration, Gone: spec.Manager.GoneAfter.Duration, Bought: spec.Worker.NodeFleet != "",
	}
	if spec.Worker.NodeFleet == "" && spec.Worker.Resources != nil {
		c.Flavors = []Flavor{{Worker: SizeOf(spec.Worker.Resources)}}
	}
	return c
}

// SizeOf returns the size of a worker with the given resources: whole MiB of memory and disk, and [Boundless] disk if
// none is specified.
func SizeOf(r *v1alpha1.WorkerResources) estimate.Resources {
	size := estimate.Resources{MilliCores: 1000 * int64(r.Cores), MemoryBytes: WholeMiB(r.Memory.Value()), DiskBytes: Boundless, GPUs: int64(r.GPUs)}
	if r.Disk != nil {
		size.DiskBytes = WholeMiB(r.Disk.Value())
	}
	return size
}

// WholeMiB rounds bytes down to whole MiB, the unit in which a worker offers them. Negative values become 0.
func WholeMiB(bytes int64) int64 { return max(0, bytes) &^ (1<<20 - 1) }
