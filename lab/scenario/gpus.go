package scenario

import (
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// Resources are the extended resources of a simulation, by slot: GPUs in thousandths, since pods may request a share of one.
var Resources = extended.Names{extended.MilliGPU}

// maxMilliGPUs is the maximum number of GPUs of a pod or a machine, in thousandths.
const maxMilliGPUs = 32_000

// milliGPUs returns thousandths of GPUs as a part of a size.
func milliGPUs(n int64) packing.Extended { return packing.Amounts(int16(n)) }

// setGPUs sets the GPUs of a machine, in thousandths.
func (f *Flavor) setGPUs(n int64) {
	f.Size.Extended, f.Resources = milliGPUs(n), &Resources
	f.GPUs = extended.GPUs{Any: n > 0, Amounts: f.Size.Extended}
}
