// Package catalogue reads and writes catalogues of available machines.
//
// A catalogue is a CSV file as read by package table, with the columns name, cpu, memory_gib and price_per_hour, and
// optionally arch, machine_type, max_pods, watts_idle, watts_full, kind, extended_resources and ephemeral_storage_gib, see
// [ReadFlavors]. [ReadOffers] also reads zones, labels and taints.
//
// CPU is converted to milli-CPU, memory to bytes, money to micro-dollars, and power to milliwatts.
//
// The package is pure: no clock, client, logger or random source.
package catalogue
