package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"
)

// volumes are the claims, volumes and storage classes of a cluster.
type volumes struct {
	claims  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	unread  map[string]bool // see World.Unread
	// drivers are the CSI drivers of each node, by its name, with how many volumes of them the node can attach:
	// math.MaxInt64 for any number.
	drivers map[string]map[string]int64
	// counted are the drivers that some node has; true if one states a number.
	counted map[string]bool
}

// The kinds of these objects in the plural, as in [World.Unread].
const (
	kindClaims  = "PersistentVolumeClaims"
	kindVolumes = "PersistentVolumes"
	kindClasses = "StorageClasses"
	kindDrivers = "CSINodes"
)

// NotRead ends the reasons why nothing can be planned that only say that an object is unknown: it may exist.
const NotRead = "was not read"

// lacks says that an object was not found among those of a kind.
func (v *volumes) lacks(kind string) string {
	if v.unread[kind] {
		return NotRead
	}
	return "does not exist"
}

// settle returns the pod without its claimed volumes and with their constraints added to its node affinity: where a
// bound volume can be reached, and where an unbound volume can be provisioned. If these are unknown it returns the
// reason. It does not consider attach limits.
func (v *volumes) settle(pod *corev1.Pod) (*corev1.Pod, string) {
	var settled *corev1.Pod
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		demands, reason := v.demands(pod.Namespace, name)
		if reason != "" {
			return pod, reason
		}
		if settled == nil {
			settled = pod.DeepCopy()
		}
		for _, d := range demands {
			demandNode(&settled.Spec, d)
		}
	}
	if settled == nil {
		return pod, ""
	}
	settled.Spec.Volumes = slices.DeleteFunc(settled.Spec.Volumes, func(volume corev1.Volume) bool { return claimName(pod, &volume) != "" })
	return settled, ""
}

// claimName returns the name of a volume's claim, or "" if it has none.
func claimName(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name
	}
	return ""
}

// demands returns the constraints of a claim on the node, all of which apply, or the reason why they are unknown.
func (v *volumes) demands(namespace, name string) ([]*corev1.NodeSelector, string) {
	claim := v.claims[namespace+"/"+name]
	if claim == nil {
		return nil, fmt.Sprintf("volume claim %s %s", name, v.lacks(kindClaims))
	}
	if bound := claim.Spec.VolumeName; bound != "" {
		volume := v.volumes[bound]
		if volume == nil {
			return nil, fmt.Sprintf("volume %s of claim %s %s", bound, name, v.lacks(kindVolumes))
		}
		var all []*corev1.NodeSelector
		if volume.Spec.NodeAffinity != nil {
			all = append(all, volume.Spec.NodeAffinity.Required)
		}
		return append(all, zones(volume)), ""
	}
	class := v.classOf(claim)
	if class == nil && v.unread[kindClasses] {
		return nil, fmt.Sprintf("StorageClass %s of volume claim %s %s", volumehelpers.GetPersistentVolumeClaimClass(claim), name, NotRead)
	}
	if !waitsForPod(class) {
		return nil, fmt.Sprintf("volume claim %s is not bound yet", name)
	}
	if class.Provisioner == noProvisioner {
		return nil, fmt.Sprintf("volume claim %s requires a volume that no provisioner creates, and a new machine may have none", name)
	}
	return []*corev1.NodeSelector{allowed(class.AllowedTopologies)}, ""
}

// noProvisioner is the provisioner of storage classes whose volumes an administrator creates.
const noProvisioner = "kubernetes.io/no-provisioner"

// classOf returns the storage class of a claim, or nil.
func (v *volumes) classOf(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	return v.classes[volumehelpers.GetPersistentVolumeClaimClass(claim)]
}

// waitsForPod reports whether claims of a class, which may be nil, are bound only when a pod needs them.
func waitsForPod(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// zoneLabels are the labels of zones and regions, and the older names of each.
var zoneLabels = map[string]string{
	corev1.LabelTopologyZone: corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion: corev1.LabelFailureDomainBetaRegion,
}

// zones returns the nodes that the labels of a volume allow, as in kube-scheduler's plugin VolumeZone; nil for all. A
// label may list several zones, separated by "__". Nodes without such labels are in a cluster of one zone.
func zones(volume *corev1.PersistentVolume) *corev1.NodeSelector {
	var none corev1.NodeSelectorTerm
	terms := []corev1.NodeSelectorTerm{{}}
	for _, key := range slices.Sorted(maps.Keys(zoneLabels)) {
		older := zoneLabels[key]
		none.MatchExpressions = append(none.MatchExpressions, lacks(key), lacks(older))
		if value, has := volume.Labels[key]; has {
			terms = eachWith(terms, []corev1.NodeSelectorRequirement{oneOf(key, value)})
		}
		if value, has := volume.Labels[older]; has {
			terms = eachWith(terms, []corev1.NodeSelectorRequirement{oneOf(older, value)}, []corev1.NodeSelectorRequirement{lacks(older), oneOf(key, value)})
		}
	}
	if len(terms) == 1 && empty(terms[0]) {
		return nil
	}
	return &corev1.NodeSelector{NodeSelectorTerms: append(terms, none)}
}

// eachWith returns each term with each of the alternatives.
func eachWith(terms []corev1.NodeSelectorTerm, alternatives ...[]corev1.NodeSelectorRequirement) (all []corev1.NodeSelectorTerm) {
	for _, t := range terms {
		for _, more := range alternatives {
			all = append(all, corev1.NodeSelectorTerm{MatchExpressions: slices.Concat(t.MatchExpressions, more)})
		}
	}
	return all
}

func lacks(key string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}
}

func oneOf(key, values string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: strings.Split(values, "__")}
}

// allowed returns the nodes for which a storage class provisions volumes, nil for all.
func allowed(topologies []corev1.TopologySelectorTerm) *corev1.NodeSelector {
	if len(topologies) == 0 {
		return nil
	}
	selector := &corev1.NodeSelector{}
	for _, t := range topologies {
		var term corev1.NodeSelectorTerm
		for _, e := range t.MatchLabelExpressions {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values,
			})
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	return selector
}

// demandNode adds a demand to the pod's node affinity: a node must match both. The terms of each are alternatives, so
// the terms of the result are all pairs.
func demandNode(spec *corev1.PodSpec, demand *corev1.NodeSelector) {
	if demand == nil {
		return
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = demand.DeepCopy()
		return
	}
	both := &corev1.NodeSelector{}
	for _, a := range affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, b := range demand.NodeSelectorTerms {
			if empty(a) || empty(b) {
				continue // a term without requirements matches no node
			}
			both.NodeSelectorTerms = append(both.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(a.MatchExpressions, b.MatchExpressions), MatchFields: slices.Concat(a.MatchFields, b.MatchFields),
			})
		}
	}
	affinity.RequiredDuringSchedulingIgnoredDuringExecution = both
}

func empty(t corev1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0
}
