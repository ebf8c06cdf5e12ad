package sim

import (
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/lab/scenario"
)

// probeWork is the runtime of a probe on a machine of speed 1.
const probeWork = time.Minute

// Probe returns the measurements of probes on a machine of the flavor (HEATS, section III): the
// same work with several requests of CPU and memory, each alone on the machine, with the runtime
// and energy of a pod of the run. Energy excludes idle power and is 0 if no power is stated.
//
// Unlike a real meter, this one is exact. The tests of profile learning cover inaccurate
// measurements.
func Probe(f *scenario.Flavor) []profile.Sample {
	power, took := f.Power(), slowed(probeWork, f.Speed)
	var samples []profile.Sample
	for _, milliCPU := range []int64{min(100, f.Size.MilliCPU), f.Size.MilliCPU / 16, f.Size.MilliCPU / 8, f.Size.MilliCPU / 4, f.Size.MilliCPU / 2, f.Size.MilliCPU} {
		joules := float64(aboveIdle(f, power, float64(milliCPU)/float64(f.Size.MilliCPU))*took.Seconds()) / 1000
		for _, memory := range []int64{min(64<<20, f.Size.MemoryBytes), f.Size.MemoryBytes / 4, f.Size.MemoryBytes / 2, f.Size.MemoryBytes} {
			samples = append(samples, profile.Sample{
				Size: profile.Size{MilliCPU: milliCPU, MemoryBytes: memory}, Runtime: took, Energy: energy.Joules(joules),
			})
		}
	}
	return samples
}
