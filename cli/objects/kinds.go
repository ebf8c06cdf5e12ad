package objects

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind is a kind of object that an audit needs.
type kind struct {
	name, plural, apiVersion string
	object                   func() client.Object
	list                     func() client.ObjectList
	// add adds an object, and share fills in a list. Both return false for another kind.
	add   func(o *Objects, object any) bool
	share func(o *Objects, list client.ObjectList) bool
}

// of describes a kind whose objects are in a field of Objects. strip drops what is not needed of an object.
func of[T, L any, O interface {
	*T
	client.Object
}, List interface {
	*L
	client.ObjectList
}](name, plural, apiVersion string, in func(*Objects) *[]T, strip func(O)) kind {
	return kind{
		name: name, plural: plural, apiVersion: apiVersion,
		object: func() client.Object { return O(new(T)) }, list: func() client.ObjectList { return List(new(L)) },
		add: func(o *Objects, object any) bool {
			x, is := object.(O)
			if !is {
				return false
			}
			stripMeta(x)
			strip(x)
			into := in(o)
			if len(*into) == cap(*into) { // append would copy them more often
				*into = slices.Grow(*into, max(64, len(*into)))
			}
			*into = append(*into, *x)
			return true
		},
		share: func(o *Objects, list client.ObjectList) bool {
			items, err := meta.GetItemsPtr(list)
			into, is := items.(*[]T)
			if err == nil && is {
				*into = *in(o)
			}
			return is
		},
	}
}

// whole keeps an object as it is.
func whole[O any](O) {}

// kinds are all kinds except MachineDeployment, in the order in which they are listed.
var kinds = []kind{
	of[corev1.Node, corev1.NodeList]("Node", "Nodes", "v1", func(o *Objects) *[]corev1.Node { return &o.Nodes }, stripNode),
	of[corev1.Pod, corev1.PodList]("Pod", "Pods", "v1", func(o *Objects) *[]corev1.Pod { return &o.Pods }, stripPod),
	of[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList]("PodDisruptionBudget", "PodDisruptionBudgets", "policy/v1",
		func(o *Objects) *[]policyv1.PodDisruptionBudget { return &o.Budgets }, whole),
	of[appsv1.DaemonSet, appsv1.DaemonSetList]("DaemonSet", "DaemonSets", "apps/v1", func(o *Objects) *[]appsv1.DaemonSet { return &o.Daemons }, whole),
	of[appsv1.ReplicaSet, appsv1.ReplicaSetList]("ReplicaSet", "ReplicaSets", "apps/v1", func(o *Objects) *[]appsv1.ReplicaSet { return &o.ReplicaSets },
		func(s *appsv1.ReplicaSet) { s.Spec.Template = corev1.PodTemplateSpec{} }),
	of[batchv1.Job, batchv1.JobList]("Job", "Jobs", "batch/v1", func(o *Objects) *[]batchv1.Job { return &o.Jobs }, whole),
	of[corev1.Service, corev1.ServiceList]("Service", "Services", "v1", func(o *Objects) *[]corev1.Service { return &o.Services }, whole),
	of[corev1.Namespace, corev1.NamespaceList]("Namespace", "Namespaces", "v1", func(o *Objects) *[]corev1.Namespace { return &o.Namespaces }, whole),
	of[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList]("PersistentVolumeClaim", "PersistentVolumeClaims", "v1",
		func(o *Objects) *[]corev1.PersistentVolumeClaim { return &o.Claims }, whole),
	of[corev1.PersistentVolume, corev1.PersistentVolumeList]("PersistentVolume", "PersistentVolumes", "v1", func(o *Objects) *[]corev1.PersistentVolume { return &o.Volumes }, whole),
	of[storagev1.StorageClass, storagev1.StorageClassList]("StorageClass", "StorageClasses", "storage.k8s.io/v1", func(o *Objects) *[]storagev1.StorageClass { return &o.Classes }, whole),
	of[storagev1.CSINode, storagev1.CSINodeList]("CSINode", "CSINodes", "storage.k8s.io/v1", func(o *Objects) *[]storagev1.CSINode { return &o.Drivers }, whole),
	of[metricsv1beta1.NodeMetrics, metricsv1beta1.NodeMetricsList]("NodeMetrics", "NodeMetrics", "metrics.k8s.io/v1beta1",
		func(o *Objects) *[]metricsv1beta1.NodeMetrics { return &o.Metrics }, whole),
}
