package constraint

import (
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/gang"
)

// Unsupported returns "" if this package, apart from free room, evaluates everything that kube-scheduler evaluates for
// the pod. Otherwise it returns a short name of the first thing that is not covered: `scheduling gate
// example.com/quota`, `resource claim gpu`, `volume data (persistentVolumeClaim pg-0)`. A caller should hold such a pod
// instead of planning a place for it.
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

// bound returns the kind of a volume that may bind its pod to certain nodes or counts against a node's limits. Unknown
// kinds are treated as such.
func bound(v *corev1.VolumeSource) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return "persistentVolumeClaim " + v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return "ephemeral"
	case v.EmptyDir != nil, v.Projected != nil, v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil,
		v.HostPath != nil, v.NFS != nil, v.Image != nil, v.CSI != nil: // an inline CSI volume is created on the node for the pod
		return ""
	}
	return "unknown type"
}
