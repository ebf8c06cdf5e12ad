package clusterapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestANodeToComeHasTheLabelsOfItsZoneAndRegion has a cluster whose other nodes are in some regions.
func TestANodeToComeHasTheLabelsOfItsZoneAndRegion(t *testing.T) {
	const aws, azure, gcp = "AWSMachineTemplate", "AzureMachineTemplate", "GCPMachineTemplate"
	const ebs, gke, disk = "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone"
	for name, tc := range map[string]struct {
		kind    string
		states  string   // the annotation of the model
		regions []string // of other nodes
		domains []string
		want    map[string][]string // the values of labels, by label, in the order of the domains
	}{
		"AWS": {aws, "", []string{"us-east-1", "us-east-1"}, []string{"us-east-1a", "us-east-1b"}, map[string][]string{
			corev1.LabelTopologyZone: {"us-east-1a", "us-east-1b"}, corev1.LabelTopologyRegion: {"us-east-1", "us-east-1"}, ebs: {"us-east-1a", "us-east-1b"},
			corev1.LabelFailureDomainBetaRegion: {"us-east-1", "us-east-1"},
		}},
		"Google Cloud": {gcp, "", []string{"us-central1"}, []string{"us-central1-a"}, map[string][]string{
			corev1.LabelTopologyZone: {"us-central1-a"}, corev1.LabelTopologyRegion: {"us-central1"}, gke: {"us-central1-a"},
		}},
		"without other nodes the region is unknown": {aws, "", nil, []string{"us-east-1a"}, map[string][]string{
			corev1.LabelTopologyZone: {"us-east-1a"}, corev1.LabelTopologyRegion: {""},
		}},
		"with nodes of two regions, too": {aws, "", []string{"us-east-1", "us-west-2"}, []string{"us-east-1a"}, map[string][]string{
			corev1.LabelTopologyZone: {"us-east-1a"}, corev1.LabelTopologyRegion: {""},
		}},
		"a stated region counts": {aws, corev1.LabelTopologyRegion + "=mine", []string{"us-east-1"}, []string{"us-east-1a"}, map[string][]string{
			corev1.LabelTopologyRegion: {"mine"}, corev1.LabelFailureDomainBetaRegion: {"mine"},
		}},
		"Azure, whose zones are named by region": {azure, "", []string{"eastus"}, []string{"1", "2"}, map[string][]string{
			corev1.LabelTopologyZone: {"eastus-1", "eastus-2"}, corev1.LabelTopologyRegion: {"eastus", "eastus"}, disk: {"eastus-1", "eastus-2"},
		}},
		"Azure, with a stated region": {azure, corev1.LabelTopologyRegion + "=westeurope", nil, []string{"3"}, map[string][]string{
			corev1.LabelTopologyZone: {"westeurope-3"}, corev1.LabelTopologyRegion: {"westeurope"},
		}},
		"Azure, in an unknown region": {azure, "", nil, []string{"1"}, map[string][]string{
			corev1.LabelTopologyZone: {""}, disk: {""}, corev1.LabelTopologyRegion: {""},
		}},
		"Azure, with a domain that names its region": {azure, "", nil, []string{"eastus-1"}, map[string][]string{corev1.LabelTopologyZone: {"eastus-1"}}},
		"a zone stated for several domains is of none": {aws, corev1.LabelTopologyZone + "=us-east-1a," + ebs + "=us-east-1a,disk=ssd", nil, []string{"us-east-1a", "us-east-1b"}, map[string][]string{
			corev1.LabelTopologyZone: {"us-east-1a", "us-east-1b"}, ebs: {"us-east-1a", "us-east-1b"}, "disk": {"ssd", "ssd"},
		}},
		"a zone stated for one domain is of it": {aws, corev1.LabelTopologyZone + "=mine", nil, []string{"us-east-1a"}, map[string][]string{
			corev1.LabelTopologyZone: {"mine"}, ebs: {"mine"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			model := toCopyOf(tc.kind)
			model.Annotations[annotationLabels] = tc.states
			field := map[string]string{aws: "instanceType", azure: "vmSize", gcp: "instanceType"}[tc.kind]
			s := newCatalogueScene(t, append(infrastructureOf(tc.kind, map[string]any{field: "t3.medium"}), model)...)
			s.spec.Templates[0].FailureDomains, s.spec.Templates[0].InstanceTypes = tc.domains, []string{"m7i.large"}
			s.nodes = map[string]*corev1.Node{"without-a-region": readyNode("without-a-region", nil)}
			for i, region := range tc.regions {
				n := readyNode(string(rune('a'+i)), nil)
				n.Labels[corev1.LabelTopologyRegion] = region
				s.nodes[n.Name] = n
			}
			p, found := s.observe()
			got := map[string][]string{}
			for label := range tc.want {
				for _, domain := range tc.domains {
					for i := range found.Flavors {
						if o := p.offered[found.Flavors[i].Name]; o != nil && o.domain == domain {
							got[label] = append(got[label], found.Flavors[i].Labels[label])
						}
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("labels by failure domain (-want +got):\n%s", diff)
			}
		})
	}
}
