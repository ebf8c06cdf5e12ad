package movable

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/gang"
)

// checkState refuses pods that do not run or have not opted in.
func (v *Verdict) checkState(in Input) {
	pod := in.Pod
	switch got, is := pod.Annotations[v1alpha1.AnnotationMigration]; {
	case !is:
		v.refuse(v1alpha1.MigrationReasonNotOptedIn, "the pod has no annotation %s, and a Migration needs %q: set it in the pod template",
			v1alpha1.AnnotationMigration, v1alpha1.MigrationCheckpoint)
	case got == v1alpha1.MigrationRestart:
		v.refuse(v1alpha1.MigrationReasonNotOptedIn, "the pod has annotation %s: %q, so it is evicted and not migrated: `kubectl drain` and the Eviction API start it again elsewhere",
			v1alpha1.AnnotationMigration, got)
	case got != v1alpha1.MigrationCheckpoint:
		v.refuse(v1alpha1.MigrationReasonNotOptedIn, "the pod has annotation %s: %q, and a Migration needs %q: set it in the pod template",
			v1alpha1.AnnotationMigration, got, v1alpha1.MigrationCheckpoint)
	}
	if pod.DeletionTimestamp != nil {
		v.refuse(v1alpha1.MigrationReasonDeleting, "the pod is being deleted")
	}
	if pod.Labels[v1alpha1.LabelMigration] != "" {
		// Its owner may not be set yet. The owner would count the pod as failed if it were moved without one.
		v.refuse(v1alpha1.MigrationReasonBeingMoved, "the pod is the new pod of a Migration that has not ended: create the Migration again later")
	}
	if name := gang.Of(pod); name != "" {
		v.refuse(v1alpha1.MigrationReasonGangUnsupported, "the pod is in gang %s, whose pods are scheduled together: the new pod would not belong to it", name)
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodRunning {
		v.refuse(v1alpha1.MigrationReasonNotRunning, "the pod is %s: only pods in phase Running can be moved", orNothing(string(pod.Status.Phase)))
		return
	}
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.State.Running == nil {
			v.refuse(v1alpha1.MigrationReasonNotRunning, "container %s of the pod is not running", s.Name)
		}
	}
}

func orNothing(text string) string {
	if text == "" {
		return "in no phase"
	}
	return text
}

// checkContainers refuses pods with more than one plain container.
func (v *Verdict) checkContainers(in Input) {
	spec := &in.Pod.Spec
	if len(spec.Containers) != 1 {
		v.refuse(v1alpha1.MigrationReasonMultipleContainers, "the pod has %d containers, and only one can be frozen and restored consistently: use pods with one container", len(spec.Containers))
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			v.refuse(v1alpha1.MigrationReasonMultipleContainers, "the pod has sidecar %s: run it in a separate pod", c.Name)
		}
	}
	if len(spec.EphemeralContainers) > 0 {
		v.refuse(v1alpha1.MigrationReasonMultipleContainers, "the pod has ephemeral container %s, which cannot be removed: this pod cannot be moved", spec.EphemeralContainers[0].Name)
	}
	if len(spec.ResourceClaims) > 0 {
		v.refuse(v1alpha1.MigrationReasonDevicesUnsupported, "the pod claims devices (resourceClaims), whose state cannot be moved: do not request devices")
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		for _, name := range sortedKeys(c.Resources.Limits) {
			if device(name) {
				v.refuse(v1alpha1.MigrationReasonDevicesUnsupported, "container %s uses %s, whose state cannot be moved: do not request it", c.Name, name)
			}
		}
		if len(c.VolumeDevices) > 0 {
			v.refuse(v1alpha1.MigrationReasonDevicesUnsupported, "container %s uses block device %s, which cannot be attached to two nodes", c.Name, c.VolumeDevices[0].DevicePath)
		}
	}
	if spec.RuntimeClassName != nil {
		v.refuse(v1alpha1.MigrationReasonRuntimeClassUnsupported, "the pod runs with RuntimeClass %s, which CRIU may not support: use the default runtime", *spec.RuntimeClassName)
	}
}

// device reports whether a resource is something other than CPU, memory and storage.
func device(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage:
		return false
	}
	return true
}

func sortedKeys(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// checkVolumes refuses volumes whose contents stay on the node.
func (v *Verdict) checkVolumes(in Input) {
	for i := range in.Pod.Spec.Volumes {
		volume := &in.Pod.Spec.Volumes[i]
		switch source := &volume.VolumeSource; {
		case source.ConfigMap != nil, source.Secret != nil, source.DownwardAPI != nil, source.Projected != nil, source.NFS != nil:
			// The target's kubelet creates them again at the same path.
		case source.EmptyDir != nil:
			v.checkEmptyDir(volume.Name, source.EmptyDir, in)
		case source.PersistentVolumeClaim != nil:
			v.checkClaim(volume.Name, source.PersistentVolumeClaim.ClaimName, in)
		default:
			v.refuse(v1alpha1.MigrationReasonVolumeUnsupported, "volume %s is of a type whose contents may stay on the node: use a claim that many nodes can mount (ReadWriteMany)", volume.Name)
		}
	}
}

// checkEmptyDir refuses emptyDirs that the agent cannot copy.
func (v *Verdict) checkEmptyDir(name string, dir *corev1.EmptyDirVolumeSource, in Input) {
	if strings.HasPrefix(string(dir.Medium), string(corev1.StorageMediumHugePages)) {
		v.refuse(v1alpha1.MigrationReasonEmptyDirUnsupported, "volume %s is an emptyDir of huge pages, which cannot be moved: use medium Memory", name)
	}
	for i := range in.Pod.Spec.Containers {
		for j := range in.Pod.Spec.Containers[i].VolumeMounts {
			if m := &in.Pod.Spec.Containers[i].VolumeMounts[j]; m.Name == name && (m.SubPath != "" || m.SubPathExpr != "") {
				v.refuse(v1alpha1.MigrationReasonEmptyDirUnsupported, "volume %s is an emptyDir of which %s has a part (subPath), whose contents are not moved: mount all of it", name, m.MountPath)
			}
		}
	}
}

func (v *Verdict) checkClaim(volume, name string, in Input) {
	claim := in.Claims[name]
	if claim == nil {
		v.refuse(v1alpha1.MigrationReasonVolumeUnsupported, "volume %s uses claim %s, which does not exist", volume, name)
		return
	}
	if !sharable(claim.Spec.AccessModes) {
		v.refuse(v1alpha1.MigrationReasonVolumeNotShared, "volume %s uses claim %s, which only one node can mount at a time, and both nodes mount it during the migration: use a claim with access mode ReadWriteMany", volume, name)
	}
}

// sharable reports whether two nodes can mount a claim at a time. A claim that allows ReadOnlyMany and a mode for one node
// may be mounted in either.
func sharable(modes []corev1.PersistentVolumeAccessMode) bool {
	if slices.Contains(modes, corev1.ReadWriteMany) {
		return true
	}
	return len(modes) > 0 && !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadOnlyMany })
}

// checkHost refuses pods that use namespaces of the node.
func (v *Verdict) checkHost(in Input) {
	spec := &in.Pod.Spec
	for _, use := range []struct {
		is   bool
		what string
	}{
		{spec.HostNetwork, "hostNetwork"}, {spec.HostPID, "hostPID"}, {spec.HostIPC, "hostIPC"},
	} {
		if use.is {
			v.refuse(v1alpha1.MigrationReasonHostNamespaceUnsupported, "the pod uses %s, which differs between nodes: run the pod without it", use.what)
		}
	}
	if spec.HostUsers != nil && !*spec.HostUsers {
		v.refuse(v1alpha1.MigrationReasonUserNamespaceUnsupported, "the pod has a user namespace of its own (hostUsers: false), whose users have other numbers on each node: run the pod without it")
	}
	if spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		v.refuse(v1alpha1.MigrationReasonHostNamespaceUnsupported, "the pod shares its process namespace (shareProcessNamespace), which contains processes of the node: run the pod without it")
	}
}

// checkServices refuses pods behind a Service, because a frozen pod remains a ready endpoint.
func (v *Verdict) checkServices(in Input) {
	for i := range in.Services {
		s := &in.Services[i]
		if len(s.Spec.Selector) == 0 || s.Namespace != in.Pod.Namespace {
			continue
		}
		if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(in.Pod.Labels)) {
			v.refuse(v1alpha1.MigrationReasonServiceUnsupported, "Service %s sends requests to the pod, and would continue while the pod is frozen: move pods of Services with a rolling update", s.Name)
		}
	}
}

// noteChanges notes what changes for the pod on its new node.
func (v *Verdict) noteChanges(in Input) {
	if len(v.Refusals) > 0 {
		return
	}
	v.note("the pod continues under a new name and with a new IP address")
	v.note("its command names no program, since its processes come from the checkpoint")
	spec := &in.Pod.Spec
	if len(spec.Containers) > 0 && restartable(spec, &spec.Containers[0]) != corev1.RestartPolicyNever {
		text := "the new pod has restartPolicy Never, since a checkpoint is restored once"
		if metav1.GetControllerOfNoCopy(in.Pod) != nil {
			text += "; when it ends, its owner creates a new pod if required"
		}
		v.note("%s", text)
	}
	if slices.ContainsFunc(spec.Volumes, func(volume corev1.Volume) bool { return volume.EmptyDir != nil }) {
		v.note("the files in its emptyDirs are copied while it is frozen")
	}
	if len(spec.InitContainers) > 0 {
		v.note("its init containers are not run again")
	}
	if len(spec.Containers) > 0 && spec.Containers[0].Lifecycle != nil && spec.Containers[0].Lifecycle.PostStart != nil {
		v.note("its postStart hook is not run again")
	}
	if metav1.GetControllerOfNoCopy(in.Pod) == nil && len(WithheldLabels(in.Pod, nil)) > 0 {
		v.note("it gets its labels when it takes over: until then they select the frozen pod, for NetworkPolicies too")
	}
}
