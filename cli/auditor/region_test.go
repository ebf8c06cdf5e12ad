package auditor

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheRegionOfANodeWithoutItsLabelIsThatOfItsZone(t *testing.T) {
	for _, c := range []struct{ providerID, zone, want string }{
		{"aws:///us-east-1a/i-0", "us-east-1a", "us-east-1"},
		{"aws:///us-gov-west-1b/i-0", "us-gov-west-1b", "us-gov-west-1"},
		{"aws:///us-west-2-lax-1a/i-0", "us-west-2-lax-1a", "us-west-2"},
		{"aws:///us-east-1-wl1-bos-wlz-1/i-0", "us-east-1-wl1-bos-wlz-1", "us-east-1"},
		{"gce://project/us-central1-a/n", "us-central1-a", "us-central1"},
		{"azure:///subscriptions/s", "eastus-1", "eastus"},
		{"", "rack", "rack"},
		{"aws:///", "", ""},
	} {
		var node corev1.Node
		node.Spec.ProviderID, node.Labels = c.providerID, map[string]string{corev1.LabelTopologyZone: c.zone}
		if got := region(&node); got != c.want {
			t.Errorf("provider ID %q in zone %q: region %q, want %q", c.providerID, c.zone, got, c.want)
		}
	}
}
