package scenario

import (
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// Resources are the extended resources of a simulation, by slot: GPUs in thousandths, since pods may request a share of one.
var Resources = extended.Names{extended.MilliGPU}

// maxMilliGPUs is the maximum number of GPUs of a pod or a machine, in thousandths.
const maxMilliGPUs = 32_000

// milliGPUs returns thousandths of GPUs as a part of a size.
func milliGPUs(n int64) packing.Extended { return packing.Amounts(int16(n)) }

// milliGPUsOf returns the GPUs among extended resources in thousandths, at most the maximum.
func milliGPUsOf(resources map[corev1.ResourceName]int64) (n int64) {
	for name, amount := range resources {
		switch {
		case name == extended.MilliGPU:
			n += min(amount, maxMilliGPUs)
		case extended.IsGPU(name):
			n += 1000 * min(amount, maxMilliGPUs/1000)
		}
	}
	return min(n, maxMilliGPUs)
}

// setGPUs sets the GPUs of a machine, in thousandths.
func (f *Flavor) setGPUs(n int64) {
	f.Size.Extended, f.Resources = milliGPUs(n), &Resources
	f.GPUs = extended.GPUs{Any: n > 0, Amounts: f.Size.Extended}
}
