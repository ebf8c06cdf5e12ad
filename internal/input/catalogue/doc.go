// Package catalogue reads and writes catalogues of machines that can be had.
//
// A catalogue is a CSV file, as package table reads it, with the columns name, cpu, memory_gib,
// price_per_hour and, where wanted, arch, machine_type, max_pods, watts_idle, watts_full and
// kind, see [ReadFlavors]; and for those who heed them zones, labels and taints, see
// [ReadOffers].
//
// CPU becomes whole milli-CPU, memory bytes, money micro-dollars, power milliwatts.
//
// The package is pure: no clock, client, logger or random source.
package catalogue
