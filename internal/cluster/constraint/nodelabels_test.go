package constraint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestANodeThatDoesNotExistYetHasTheLabelsThatFollowFromOthers(t *testing.T) {
	for name, tc := range map[string]struct{ labels, want map[string]string }{
		"the kubelet's": {
			map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"},
			map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"},
		},
		"the cloud's": {
			map[string]string{"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/region": "r"},
			map[string]string{
				"node.kubernetes.io/instance-type": "m5.large", "beta.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/region": "r",
				"failure-domain.beta.kubernetes.io/region": "r", "topology.csi.vmware.com/k8s-region": "r",
			},
		},
		"the zone's, without one that is stated": {
			map[string]string{"topology.kubernetes.io/zone": "us-east-1b", "topology.gke.io/zone": "other"},
			map[string]string{
				"topology.kubernetes.io/zone": "us-east-1b", "failure-domain.beta.kubernetes.io/zone": "us-east-1b", "topology.ebs.csi.aws.com/zone": "us-east-1b",
				"topology.gke.io/zone": "other", "topology.disk.csi.azure.com/zone": "us-east-1b", "topology.cinder.csi.openstack.org/zone": "us-east-1b",
				"topology.csi.vmware.com/k8s-zone": "us-east-1b",
			},
		},
		"none": {map[string]string{"disk": "ssd"}, map[string]string{"disk": "ssd"}},
	} {
		if AddFollowing(tc.labels); !cmp.Equal(tc.want, tc.labels) {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(tc.want, tc.labels))
		}
	}
}
