package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/jobs"
)

// annotationLocalVolumes lists the local volumes of a pod, by name and separated by commas, that do not keep it on its
// node.
const annotationLocalVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

// EvictServices sets which service pods may be evicted from a node. By default, pods leave a node only if they opt in.
func (v *View) EvictServices(node string, which v1alpha1.ServiceEviction) {
	if v.services == nil {
		v.services = map[string]v1alpha1.ServiceEviction{}
	}
	v.services[node] = which
}

// servicesOn returns which service pods are evicted from the pod's node. It returns "" if this is not set or the pod is
// not a service.
func (v *View) servicesOn(pod *corev1.Pod) v1alpha1.ServiceEviction {
	if kind, _ := class.OfPod(pod); kind != class.Service {
		return ""
	}
	return v.services[pod.Spec.NodeName]
}

// refuses returns the reason why a pod must stay on its node, or "": the pod opts out, or it is a service and services
// never leave the node.
func refuses(pod *corev1.Pod, services v1alpha1.ServiceEviction, now time.Time) string {
	if why := undisrupted(pod, now); why != "" {
		return why
	}
	switch {
	case pod.Annotations[annotationSafeToEvict] == "false":
		return "it has annotation " + annotationSafeToEvict + ": false"
	case pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationNever:
		return "it has annotation " + v1alpha1.AnnotationMigration + ": never"
	case services == v1alpha1.EvictServicesNever:
		return "it belongs to a service, and spec.consolidation.evictServices of the NodeFleet is Never"
	}
	return ""
}

// undisrupted returns the reason why a pod stays because of Karpenter's annotation, or "". The value is true, false, or
// how long after its start the pod stays. A malformed value keeps the pod.
func undisrupted(pod *corev1.Pod, now time.Time) string {
	value := pod.Annotations[annotationDoNotDisrupt]
	if value == "" || value == "false" {
		return ""
	}
	why := "it has annotation " + annotationDoNotDisrupt + ": " + value
	if value == "true" {
		return why
	}
	lasts, err := time.ParseDuration(value)
	switch start := pod.Status.StartTime; {
	case err != nil:
		return why + ", which must be true, false or a duration such as 5m"
	case start == nil:
		return why + ", and has not started"
	case now.Sub(start.Time) < lasts:
		return fmt.Sprintf("%s, and started %v ago", why, now.Sub(start.Time).Truncate(time.Second))
	}
	return ""
}

// unevictable returns the reason why a pod that does not refuse is not evicted, or "".
//
// A pod that opts in to being restarted is evicted if a controller would start it again. Other pods stay, except on a
// node from which services that do not opt out are evicted. There the rules of cluster-autoscaler apply, because the
// owners of the pods know them.
func (v *View) unevictable(pod *corev1.Pod, services v1alpha1.ServiceEviction) string {
	declared := mayRestart(pod)
	volume := localVolume(pod)
	switch {
	case !declared && services != v1alpha1.EvictServicesOptOut:
		return "it does not opt in to being moved with annotation " + v1alpha1.AnnotationMigration
	case metav1.GetControllerOfNoCopy(pod) == nil:
		return "it has no controller that would restart it"
	}
	if why := v.failsJob(pod); why != "" {
		return why
	}
	switch {
	case declared:
		return ""
	case volume != nil && volume.HostPath != nil: // the data is not lost, but the pod may find other data on another node
		return fmt.Sprintf("its local volume %s stays on the node: set annotation %s to allow that", volume.Name, annotationLocalVolumes+": "+volume.Name)
	case volume != nil:
		return fmt.Sprintf("the contents of its local volume %s would be lost: set annotation %s to allow that", volume.Name, annotationLocalVolumes+": "+volume.Name)
	case pod.Namespace == metav1.NamespaceSystem && v.unread["PodDisruptionBudgets"]:
		return "it is in namespace " + metav1.NamespaceSystem + ", and no PodDisruptionBudgets were read"
	case pod.Namespace == metav1.NamespaceSystem && !budgeted(pod, v.Budgets):
		return "it is in namespace " + metav1.NamespaceSystem + ", and no PodDisruptionBudget selects it"
	}
	return ""
}

// failsJob returns the reason why a pod is not evicted for the sake of its Job, or "". All pods of the Job on its node would
// leave with it. A pod whose Job is gone will be deleted, so nothing is lost by its eviction.
func (v *View) failsJob(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "Job" {
		return ""
	}
	if v.unread["Jobs"] {
		return "it belongs to a Job, and Jobs were not read"
	}
	job := v.Jobs[pod.Namespace+"/"+owner.Name]
	if job == nil || job.UID != owner.UID {
		return ""
	}
	leaving := int32(1)
	for _, other := range v.onNode[pod.Spec.NodeName] {
		if of := metav1.GetControllerOfNoCopy(other); of != nil && of.UID == job.UID && other.UID != pod.UID && !class.Ended(other) && other.DeletionTimestamp == nil {
			leaving++
		}
	}
	return jobs.Keeps(job, pod, leaving)
}

// mayRestart reports whether a pod opts in to being restarted, even if it would lose its state.
func mayRestart(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationRestart || pod.Annotations[annotationSafeToEvict] == "true"
}

// optsIn reports whether a pod opts in to being restarted or moved.
func optsIn(pod *corev1.Pod) bool {
	return mayRestart(pod) || pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationCheckpoint
}

// localVolume returns the first volume of a pod whose data stays on the node and that the pod does not list as
// expendable, or nil. A hostPath volume counts because the pod may find different data on another node.
func localVolume(pod *corev1.Pod) *corev1.Volume {
	listed := strings.Split(pod.Annotations[annotationLocalVolumes], ",")
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		local := v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
		if local && !slices.Contains(listed, v.Name) {
			return v
		}
	}
	return nil
}

// budgeted reports whether a PodDisruptionBudget selects the pod. A budget with an invalid selector selects none.
func budgeted(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) bool {
	return slices.ContainsFunc(budgets, func(b policyv1.PodDisruptionBudget) bool {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err == nil && b.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels))
	})
}
