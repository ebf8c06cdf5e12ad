package constraint

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewCompilerFor is [NewCompiler] for the case that all pods are known in advance. It considers only labels that a
// constraint of one of these pods mentions. Pods that differ only in other labels, such as the completion index or the
// job name, then share one *Pod, which keeps the number of different pods small.
//
// Other pods may be compiled too, as long as their constraints mention no other labels; otherwise Compile returns an
// error.
func NewCompilerFor(namespaces map[string]map[string]string, pods []*corev1.Pod) *Compiler {
	c := NewCompiler(namespaces)
	c.selected = map[string]bool{}
	for _, pod := range pods {
		mentioned(pod, func(key string) { c.selected[key] = true })
	}
	return c
}

// mentioned calls use with every label key that the pod's constraints on other pods mention. It may repeat keys.
func mentioned(pod *corev1.Pod, use func(key string)) {
	of := func(s *metav1.LabelSelector, keys ...string) {
		if s != nil {
			for key := range s.MatchLabels {
				use(key)
			}
			for i := range s.MatchExpressions {
				use(s.MatchExpressions[i].Key)
			}
		}
		for _, key := range keys {
			use(key)
		}
	}
	ofTerms := func(terms []corev1.PodAffinityTerm) {
		for i := range terms {
			of(terms[i].LabelSelector, terms[i].MatchLabelKeys...)
			of(nil, terms[i].MismatchLabelKeys...)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		ofTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		ofTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		if in := &pod.Spec.TopologySpreadConstraints[i]; in.WhenUnsatisfiable == corev1.DoNotSchedule {
			of(in.LabelSelector, in.MatchLabelKeys...)
		}
	}
}

// selectable returns the labels of the pod that a constraint may select, and an error if the pod's own constraints mention
// other labels. The map may be the pod's own.
func (c *Compiler) selectable(pod *corev1.Pod) (map[string]string, error) {
	if c.selected == nil {
		return pod.Labels, nil
	}
	var unknown map[string]bool
	mentioned(pod, func(key string) {
		if !c.selected[key] {
			if unknown == nil {
				unknown = map[string]bool{}
			}
			unknown[key] = true
		}
	})
	if len(unknown) > 0 {
		return nil, fmt.Errorf("compile the constraints of pod %s/%s: they refer to labels %v, which no pod referred to when the compiler was created",
			pod.Namespace, pod.Name, slices.Sorted(maps.Keys(unknown)))
	}
	if len(c.selected) == 0 {
		return nil, nil
	}
	set := map[string]string{}
	for key, value := range pod.Labels {
		if c.selected[key] {
			set[key] = value
		}
	}
	return set, nil
}

// followers are the labels that nodes have besides another one, with its value:
//   - the kubelet sets the older names of the labels of the operating system and the architecture,
//   - cloud-controller-managers set the older names of the labels of the instance type, the zone and the region,
//   - the CSI drivers of clouds name the zone or the region of a node by labels of their own.
var followers = map[string][]string{
	corev1.LabelOSStable:           {"beta.kubernetes.io/os"},
	corev1.LabelArchStable:         {"beta.kubernetes.io/arch"},
	corev1.LabelInstanceTypeStable: {corev1.LabelInstanceType},
	corev1.LabelTopologyZone: {
		corev1.LabelFailureDomainBetaZone,
		"topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone", "topology.cinder.csi.openstack.org/zone",
		"topology.csi.vmware.com/k8s-zone",
	},
	corev1.LabelTopologyRegion: {corev1.LabelFailureDomainBetaRegion, "topology.csi.vmware.com/k8s-region"},
}

// AddFollowing adds the labels that a node gets besides the given ones, with the same values. It keeps those that are
// there. It is for nodes that do not exist yet: of a node, its labels are known.
func AddFollowing(labels map[string]string) {
	for of, names := range followers {
		value, is := labels[of]
		if !is {
			continue
		}
		for _, name := range names {
			if _, has := labels[name]; !has {
				labels[name] = value
			}
		}
	}
}

// NamesZone reports whether a label of nodes names their zone.
func NamesZone(label string) bool {
	return label == corev1.LabelTopologyZone || slices.Contains(followers[corev1.LabelTopologyZone], label)
}
