package constraint

import (
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/gang"
)

// Unsupported returns "" if this package sees everything that kube-scheduler looks
// at when it places the pod, room apart, and else a short name of the first thing it
// does not see: `scheduling gate example.com/quota`, `resource claim gpu`,
// `volume data (persistentVolumeClaim pg-0)`. Whether such a pod may run on a host
// cannot be told here, so a caller should hold rather than promise it a place.
func Unsupported(pod *corev1.Pod) string {
	switch spec := &pod.Spec; {
	case len(spec.SchedulingGates) > 0:
		return "scheduling gate " + spec.SchedulingGates[0].Name
	case len(spec.ResourceClaims) > 0:
		return "resource claim " + spec.ResourceClaims[0].Name
	case gang.Of(pod) != "":
		return "gang " + gang.Of(pod)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if what := bound(&v.VolumeSource); what != "" {
			return "volume " + v.Name + " (" + what + ")"
		}
	}
	return ""
}

// bound names the kind of a volume that may tie its pod to certain nodes or counts
// against a node's limits. Kinds that are not known to do neither are among them.
func bound(v *corev1.VolumeSource) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return "persistentVolumeClaim " + v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return "ephemeral"
	case v.EmptyDir != nil, v.Projected != nil, v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil,
		v.HostPath != nil, v.NFS != nil, v.Image != nil, v.CSI != nil: // a CSI volume here is made on the node, for the pod
		return ""
	}
	return "kind not known"
}
