package audit

import "strings"

// Reserved machines are paid for in advance, as Karpenter says of a node.
const Reserved = "reserved"

// StatedCapacityType returns how a node with these labels is sold: [Spot], [OnDemand] or [Reserved]. It is empty if no
// label says so, as on providers that label their spot machines only.
func StatedCapacityType(labels map[string]string) string {
	for _, of := range []struct{ label, value, sold string }{
		{"karpenter.sh/capacity-type", "spot", Spot}, {"eks.amazonaws.com/capacityType", "SPOT", Spot}, {"cloud.google.com/gke-spot", "true", Spot},
		{"cloud.google.com/gke-preemptible", "true", Spot}, {"cloud.google.com/gke-provisioning", "spot", Spot},
		{"cloud.google.com/gke-provisioning", "preemptible", Spot}, {"kubernetes.azure.com/scalesetpriority", "spot", Spot},
		{"karpenter.sh/capacity-type", "reserved", Reserved}, {"eks.amazonaws.com/capacityType", "CAPACITY_BLOCK", Reserved},
		{"karpenter.sh/capacity-type", "on-demand", OnDemand}, {"eks.amazonaws.com/capacityType", "ON_DEMAND", OnDemand},
		{"cloud.google.com/gke-provisioning", "standard", OnDemand}, {"kubernetes.azure.com/scalesetpriority", "regular", OnDemand},
	} {
		if strings.EqualFold(labels[of.label], of.value) {
			return of.sold
		}
	}
	return ""
}
