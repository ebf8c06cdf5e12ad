package decide

import (
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// ConfigOf is what a pool with this spec may do. The spec must have been completed with the
// defaults of its kind. Flavors has the size that the spec states, and is empty for a pool
// that names a NodeFleet: those are for the caller to add.
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

// SizeOf is what a worker has of which the spec states so much: whole MiB of memory and disk,
// and [Boundless] disk where none is stated.
func SizeOf(r *v1alpha1.WorkerResources) estimate.Resources {
	size := estimate.Resources{MilliCores: 1000 * int64(r.Cores), MemoryBytes: WholeMiB(r.Memory.Value()), DiskBytes: Boundless, GPUs: int64(r.GPUs)}
	if r.Disk != nil {
		size.DiskBytes = WholeMiB(r.Disk.Value())
	}
	return size
}

// WholeMiB rounds bytes down to what a worker can be told to offer; 0 for less than none.
func WholeMiB(bytes int64) int64 { return max(0, bytes) &^ (1<<20 - 1) }
