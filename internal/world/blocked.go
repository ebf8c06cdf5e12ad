package world

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"supercargo.dev/supercargo/internal/cluster/gang"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Claims returns the volume claims of a pod that exist, in the order of its volumes.
func (v *View) Claims(pod *corev1.Pod) (all []*corev1.PersistentVolumeClaim) {
	for i := range pod.Spec.Volumes {
		if claim := v.volumes.claims[pod.Namespace+"/"+claimName(pod, &pod.Spec.Volumes[i])]; claim != nil {
			all = append(all, claim)
		}
	}
	return all
}

// Blocked returns why kube-scheduler places the pod on no node because of a volume claim, or "": the reasons for which it
// does not evaluate nodes. It says nothing that depends on kinds that were not read.
func (v *View) Blocked(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		name := claimName(pod, volume)
		if name == "" {
			continue
		}
		claim := v.volumes.claims[pod.Namespace+"/"+name]
		switch {
		case claim == nil && v.unread[kindClaims]:
			continue
		case claim == nil && volume.Ephemeral != nil:
			return fmt.Sprintf("the claim %s of its ephemeral volume does not exist yet: kube-controller-manager creates it", name)
		case claim == nil:
			return fmt.Sprintf("volume claim %s does not exist: create it, or correct the name in the pod", name)
		case volume.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
			return fmt.Sprintf("volume claim %s exists but was not created for the pod's ephemeral volume: delete the claim, or rename the pod", name)
		}
		if why := v.volumes.blocks(claim); why != "" {
			return why
		}
		if user := v.soleUser(pod, claim); user != "" {
			return fmt.Sprintf("volume claim %s has access mode ReadWriteOncePod, and pod %s uses it", name, user)
		}
	}
	return ""
}

// blocks returns why a claim keeps its pods from all nodes, or "".
func (v *volumes) blocks(claim *corev1.PersistentVolumeClaim) string {
	name, volume := claim.Name, claim.Spec.VolumeName
	switch {
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("volume claim %s is being deleted", name)
	case volume != "" && v.volumes[volume] == nil && !v.unread[kindVolumes]:
		return fmt.Sprintf("volume claim %s is bound to volume %s, which does not exist", name, volume)
	case claim.Status.Phase == corev1.ClaimLost: // its volume may exist and be bound to another claim
		return fmt.Sprintf("volume claim %s has lost its volume: the Events of the claim say why", name)
	case volume != "" && claim.Annotations[volumehelpers.AnnBindCompleted] == "":
		return fmt.Sprintf("volume claim %s names volume %s and is not bound to it: the Events of the claim say why", name, volume)
	case volume != "":
		return ""
	}
	className := volumehelpers.GetPersistentVolumeClaimClass(claim)
	class := v.classes[className]
	switch {
	case className == "" && claim.Spec.StorageClassName == nil:
		return fmt.Sprintf("volume claim %s is not bound and names no StorageClass: mark a StorageClass as the default, or create a volume that it matches", name)
	case className == "":
		return fmt.Sprintf("volume claim %s is not bound and names no StorageClass: create a volume that it matches", name)
	case class == nil && v.unread[kindClasses]:
		return ""
	case class == nil:
		return fmt.Sprintf("volume claim %s is not bound, and its StorageClass %s does not exist", name, className)
	case waitsForPod(class):
		return ""
	case class.Provisioner == noProvisioner:
		return fmt.Sprintf("volume claim %s is not bound: create a volume of StorageClass %s that it matches", name, className)
	}
	return fmt.Sprintf("volume claim %s is not bound: provisioner %s of StorageClass %s must create its volume first; the Events of the claim say how far it is",
		name, class.Provisioner, className)
}

// soleUser returns the pod on a node that uses a claim which only one pod may use, or "".
func (v *View) soleUser(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) string {
	if !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return ""
	}
	for _, other := range v.Pods {
		if other.Spec.NodeName == "" || other.Namespace != pod.Namespace || other.Name == pod.Name {
			continue
		}
		for j := range other.Spec.Volumes {
			if source := other.Spec.Volumes[j].PersistentVolumeClaim; source != nil && source.ClaimName == claim.Name {
				return PodName(other)
			}
		}
	}
	return ""
}

// refuse returns why a node cannot have the volumes of a pod, or "". It skips claims that block the pod anyway.
func (v *volumes) refuse(node *corev1.Node, pod *corev1.Pod) string {
	taken := map[string]*corev1.PersistentVolume{} // by other claims of the pod
	for i := range pod.Spec.Volumes {
		claim := v.claims[pod.Namespace+"/"+claimName(pod, &pod.Spec.Volumes[i])]
		if claim == nil {
			continue
		}
		if why := v.refuseClaim(node, claim, taken); why != "" {
			return why
		}
	}
	return ""
}

func (v *volumes) refuseClaim(node *corev1.Node, claim *corev1.PersistentVolumeClaim, taken map[string]*corev1.PersistentVolume) string {
	if bound := v.volumes[claim.Spec.VolumeName]; bound != nil {
		if volumehelpers.CheckNodeAffinity(bound, node.Labels) != nil {
			return fmt.Sprintf("volume %s of claim %s cannot be used there (its node affinity)", bound.Name, claim.Name)
		}
		if allowed := zones(bound); allowed != nil && !selects(allowed, node) {
			return fmt.Sprintf("volume %s of claim %s is in another zone (its labels)", bound.Name, claim.Name)
		}
		return ""
	}
	class := v.classOf(claim)
	if claim.Spec.VolumeName != "" || !waitsForPod(class) || v.unread[kindVolumes] {
		return ""
	}
	if chosen := claim.Annotations[volumehelpers.AnnSelectedNode]; chosen != "" {
		if chosen == node.Name {
			return ""
		}
		return fmt.Sprintf("the volume of claim %s is to be created for node %s (annotation %s)", claim.Name, chosen, volumehelpers.AnnSelectedNode)
	}
	if found, err := volumehelpers.FindMatchingVolume(claim, v.sorted(), node, taken, false, true); err == nil && found != nil {
		taken[found.Name] = found
		return ""
	}
	switch {
	case class.Provisioner == noProvisioner:
		return fmt.Sprintf("no free volume there for claim %s", claim.Name)
	case !selects(allowed(class.AllowedTopologies), node):
		return fmt.Sprintf("StorageClass %s creates no volumes there (allowedTopologies)", class.Name)
	}
	return ""
}

// sorted returns all volumes by name.
func (v *volumes) sorted() []*corev1.PersistentVolume {
	all := make([]*corev1.PersistentVolume, 0, len(v.volumes))
	for _, name := range slices.Sorted(maps.Keys(v.volumes)) {
		all = append(all, v.volumes[name])
	}
	return all
}

// selects reports whether a selector, nil for all nodes, selects a node by its labels.
func selects(selector *corev1.NodeSelector, node *corev1.Node) bool {
	if selector == nil {
		return true
	}
	disk := corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: selector}}}
	return volumehelpers.CheckNodeAffinity(&disk, node.Labels) == nil
}

// Unchecked lists what kube-scheduler checks about nodes for this pod and [View.Refusals] does not.
func (v *View) Unchecked(pod *corev1.Pod) (all []string) {
	if len(pod.Spec.ResourceClaims) > 0 {
		all = append(all, "the devices of nodes")
	}
	if v.attachesUncounted(pod) {
		all = append(all, "how many volumes a node can attach")
	}
	if slices.ContainsFunc(v.Claims(pod), func(c *corev1.PersistentVolumeClaim) bool { return c.Spec.VolumeName == "" }) {
		all = append(all, "the free capacity of storage")
	}
	if slices.ContainsFunc(pod.Spec.Volumes, func(s corev1.Volume) bool {
		return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.RBD != nil || s.ISCSI != nil
	}) {
		all = append(all, "which disks other pods use")
	}
	if name := gang.Of(pod); name != "" {
		all = append(all, "whether all pods of gang "+name+" find room")
	}
	return all
}

// attachesUncounted reports whether a volume of the pod may have to be attached to its node and is not counted by
// [View.overfull]: its driver is unknown, or the pod names the disk itself.
func (v *View) attachesUncounted(pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Spec.Volumes, isDisk) {
		return true
	}
	return slices.ContainsFunc(v.volumes.claimed(pod), func(c claimed) bool {
		_, known := v.volumes.counted[c.driver]
		return c.attaches && !known
	})
}

// overfull returns why a node cannot attach the volumes of a pod beside those of the pods there, or "". Like
// kube-scheduler, it counts a volume once for all pods that use it, and on a node that states no number none. Volumes that
// are still attached for pods that have ended are unknown.
func (v *View) overfull(node string, pod *corev1.Pod) string {
	limits := v.volumes.drivers[node]
	asks := v.volumes.counts(pod)
	if len(limits) == 0 || len(asks) == 0 {
		return ""
	}
	has := map[claimed]bool{}
	for _, other := range v.onNode[node] {
		if displaces(pod, other) {
			continue
		}
		for _, c := range v.volumes.counts(other) {
			has[c] = true
		}
	}
	taken, more := map[string]int64{}, map[string]int64{}
	for c := range has {
		taken[c.driver]++
	}
	for _, c := range asks {
		if !has[c] {
			more[c.driver]++
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(more)) {
		if most, states := limits[driver]; states && taken[driver]+more[driver] > most {
			return fmt.Sprintf("%s of CSI driver %s can be attached there, the pods there have %d, and this one has %d more", plural.Count(int(most), "volume"), driver, taken[driver], more[driver])
		}
	}
	return ""
}

// isDisk reports whether a pod names a disk of a cloud itself, without a claim. kube-scheduler counts it as a volume of the
// CSI driver of that cloud.
func isDisk(s corev1.Volume) bool {
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.AzureDisk != nil || s.Cinder != nil || s.VsphereVolume != nil || s.PortworxVolume != nil
}
