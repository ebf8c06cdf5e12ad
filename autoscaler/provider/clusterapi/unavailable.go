package clusterapi

import "strings"

// unavailable are the errors by which clouds report that they have no such machine, or that the account may not have
// one: waiting rarely helps, but another instance type or failure domain may. They are parts of the message of an
// infrastructure provider of cluster-api for a Machine.
var unavailable = []string{
	// Amazon EC2: error codes of RunInstances and CreateFleet.
	"InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity", "InsufficientFreeAddressesInSubnet", "InstanceLimitExceeded",
	"VcpuLimitExceeded", "UnfulfillableCapacity", "InvalidInstanceType", "not supported in your requested Availability Zone",
	// Azure: allocation failures, and sizes that a subscription may not have.
	"AllocationFailed", "OverconstrainedAllocationRequest", "OverconstrainedZonalAllocationRequest", "SkuNotAvailable", "QuotaExceeded",
	"exceeding approved",
	// Google Compute Engine.
	"ZONE_RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED", "does not have enough resources available",
	// OpenStack: Nova.
	"No valid host was found", "Quota exceeded",
}

// cannotBeHad reports whether a message says that a machine is unavailable.
func cannotBeHad(message string) bool {
	for _, text := range unavailable {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}
