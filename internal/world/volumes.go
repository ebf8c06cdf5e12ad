package world

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// volumes are the claims, volumes and storage classes of a cluster.
type volumes struct {
	claims  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
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
		demand, reason := v.demand(pod.Namespace, name)
		if reason != "" {
			return pod, reason
		}
		if settled == nil {
			settled = pod.DeepCopy()
		}
		demandNode(&settled.Spec, demand)
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

// demand returns the constraints of a claim on the node, nil if there are none, or the reason why they are unknown.
func (v *volumes) demand(namespace, name string) (*corev1.NodeSelector, string) {
	claim := v.claims[namespace+"/"+name]
	if claim == nil {
		return nil, fmt.Sprintf("volume claim %s does not exist", name)
	}
	if bound := claim.Spec.VolumeName; bound != "" {
		volume := v.volumes[bound]
		switch {
		case volume == nil:
			return nil, fmt.Sprintf("volume %s of claim %s does not exist", bound, name)
		case volume.Spec.NodeAffinity == nil:
			return nil, ""
		}
		return volume.Spec.NodeAffinity.Required, ""
	}
	var class *storagev1.StorageClass
	if claim.Spec.StorageClassName != nil {
		class = v.classes[*claim.Spec.StorageClassName]
	}
	if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return nil, fmt.Sprintf("volume claim %s is not bound yet", name)
	}
	if class.Provisioner == "kubernetes.io/no-provisioner" {
		return nil, fmt.Sprintf("volume claim %s requires a local volume, which a new machine may not have", name)
	}
	return allowed(class.AllowedTopologies), ""
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
