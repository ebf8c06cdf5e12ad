package audit

import "supercargo.dev/supercargo/internal/cluster/capacity"

// Reserved machines are paid for in advance, as Karpenter says of a node.
const Reserved = string(capacity.Reserved)

// StatedCapacityType returns how a node with these labels is sold: [Spot], [OnDemand] or [Reserved]. It is empty if no
// label says so, as on providers that label their spot machines only.
func StatedCapacityType(labels map[string]string) string { return string(capacity.Of(labels)) }
