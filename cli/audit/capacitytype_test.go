package audit

import "testing"

func TestLabelsOfProvidersSayHowANodeIsSold(t *testing.T) {
	for _, tc := range []struct{ label, value, want string }{
		{"karpenter.sh/capacity-type", "spot", Spot},
		{"karpenter.sh/capacity-type", "on-demand", OnDemand},
		{"karpenter.sh/capacity-type", "reserved", Reserved},
		{"eks.amazonaws.com/capacityType", "SPOT", Spot},
		{"eks.amazonaws.com/capacityType", "ON_DEMAND", OnDemand},
		{"eks.amazonaws.com/capacityType", "CAPACITY_BLOCK", Reserved},
		{"cloud.google.com/gke-spot", "true", Spot},
		{"cloud.google.com/gke-spot", "false", ""},
		{"cloud.google.com/gke-preemptible", "true", Spot},
		{"cloud.google.com/gke-provisioning", "standard", OnDemand},
		{"cloud.google.com/gke-provisioning", "spot", Spot},
		{"kubernetes.azure.com/scalesetpriority", "spot", Spot},
		{"node.kubernetes.io/instance-type", "spot", ""},
	} {
		if got := StatedCapacityType(map[string]string{tc.label: tc.value}); got != tc.want {
			t.Errorf("%s=%s: %q, want %q", tc.label, tc.value, got, tc.want)
		}
	}
}
