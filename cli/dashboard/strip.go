package dashboard

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// annotations are the annotations to keep.
var annotations = []string{v1alpha1.AnnotationExpectedFinish, v1alpha1.AnnotationDraining, v1alpha1.AnnotationPricePerHour, ownerKind, ownerName, ownerNamespace}

// The annotations of cluster-api on a node, which identify its MachineDeployment.
const (
	ownerKind      = "cluster.x-k8s.io/owner-kind"
	ownerName      = "cluster.x-k8s.io/owner-name"
	ownerNamespace = "cluster.x-k8s.io/cluster-namespace"
)

// strip removes unused fields before objects are cached. Environment variables, commands and volumes of
// pods are in memory only while an object is decoded.
func strip(object any) (any, error) {
	if o, is := object.(client.Object); is {
		o.SetManagedFields(nil)
		kept := map[string]string{}
		for _, key := range annotations {
			if value, there := o.GetAnnotations()[key]; there {
				kept[key] = value
			}
		}
		o.SetAnnotations(kept)
	}
	switch o := object.(type) {
	case *corev1.Pod:
		stripPod(o)
	case *corev1.Node:
		o.Status.Images, o.Status.VolumesInUse, o.Status.VolumesAttached, o.Status.Addresses = nil, nil, nil, nil
	case *v1alpha1.ReplicaPolicy:
		o.Status.Memory, o.Spec.Metrics = nil, v1alpha1.ReplicaMetrics{}
	case *v1alpha1.WorkerPool:
		o.Spec.Template.Raw, o.Spec.Manager = nil, v1alpha1.WorkQueueManager{}
	case *v1alpha1.Migration:
		o.Status.Source, o.Status.Target = nil, nil
	}
	return object, nil
}

// stripPod keeps a pod's node, requests, class and why it is pending.
func stripPod(p *corev1.Pod) {
	spec := corev1.PodSpec{NodeName: p.Spec.NodeName, Overhead: p.Spec.Overhead, Resources: p.Spec.Resources, SchedulingGates: p.Spec.SchedulingGates}
	spec.InitContainers, spec.Containers = containers(p.Spec.InitContainers), containers(p.Spec.Containers)
	status := corev1.PodStatus{Phase: p.Status.Phase, Resources: p.Status.Resources, AllocatedResources: p.Status.AllocatedResources}
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			// Keep resources, because a pending resize still counts with the old ones.
			statuses[i] = corev1.ContainerStatus{Name: statuses[i].Name, Resources: statuses[i].Resources, AllocatedResources: statuses[i].AllocatedResources}
		}
	}
	status.InitContainerStatuses, status.ContainerStatuses = p.Status.InitContainerStatuses, p.Status.ContainerStatuses
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; c.Type {
		case corev1.PodScheduled, corev1.PodResizePending, corev1.PodResizeInProgress:
			status.Conditions = append(status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	labels := map[string]string{}
	if class, is := p.Labels[v1alpha1.LabelClass]; is {
		labels[v1alpha1.LabelClass] = class
	}
	p.ObjectMeta = metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, CreationTimestamp: p.CreationTimestamp,
		DeletionTimestamp: p.DeletionTimestamp, Labels: labels, Annotations: p.Annotations, OwnerReferences: p.OwnerReferences,
	}
	p.Spec, p.Status = spec, status
}

func containers(all []corev1.Container) []corev1.Container {
	kept := make([]corev1.Container, len(all))
	for i := range all {
		kept[i] = corev1.Container{Name: all[i].Name, Resources: all[i].Resources, RestartPolicy: all[i].RestartPolicy}
	}
	return kept
}
