// Package objects reads the objects of a cluster that an audit needs: from an API server page by page, or from the
// output of kubectl. It keeps only the fields that are needed.
package objects

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Objects are the objects of a cluster, each kind in the order in which it was read. It is a [client.Reader] that lists
// all objects of a kind whatever the options, so that package world can read it like a cluster.
type Objects struct {
	Nodes       []corev1.Node
	Pods        []corev1.Pod
	Budgets     []policyv1.PodDisruptionBudget
	Daemons     []appsv1.DaemonSet
	ReplicaSets []appsv1.ReplicaSet
	Jobs        []batchv1.Job
	Services    []corev1.Service
	Namespaces  []corev1.Namespace
	Claims      []corev1.PersistentVolumeClaim
	Volumes     []corev1.PersistentVolume
	Classes     []storagev1.StorageClass
	// Drivers are the CSI drivers of nodes.
	Drivers []storagev1.CSINode
	// Metrics are the metrics of nodes from metrics-server.
	Metrics []metricsv1beta1.NodeMetrics
	// Deployments are the MachineDeployments of cluster-api. They contain only metadata.
	Deployments []metav1.PartialObjectMetadata
	// Missing holds, by plural name of the kind, the reason why no objects were read although there may be some.
	Missing map[string]string
	// Others is the number of objects of kinds that an audit does not need.
	Others int
}

var _ client.Reader = (*Objects)(nil)

// Get returns an error. Package world does not need it.
func (o *Objects) Get(_ context.Context, key types.NamespacedName, object client.Object, _ ...client.GetOption) error {
	return fmt.Errorf("get %T %s: objects of an audit can only be listed", object, key)
}

// List fills in a list. The items share memory with o and must not be changed.
func (o *Objects) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for i := range kinds {
		if kinds[i].share(o, list) {
			return nil
		}
	}
	if _, is := list.(*v1alpha1.MigrationList); is {
		return nil // an audit counts none of them
	}
	return fmt.Errorf("list %T: an audit has none", list)
}

// Add adds an object of a kind that an audit needs, without the fields that it does not need. It counts objects of
// other kinds and omits pods that have ended.
func (o *Objects) Add(object any) {
	switch x := object.(type) {
	case *corev1.Pod:
		if class.Ended(x) {
			return
		}
	case *metav1.PartialObjectMetadata:
		stripMeta(x)
		o.Deployments = append(o.Deployments, *x)
		return
	}
	for i := range kinds {
		if kinds[i].add(o, object) {
			return
		}
	}
	o.Others++
}

// lastApplied is the annotation in which kubectl apply stores the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func stripMeta(o metav1.Object) {
	o.SetManagedFields(nil)
	delete(o.GetAnnotations(), lastApplied)
}

func stripNode(n *corev1.Node) {
	n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached, n.Status.Addresses = nil, nil, nil, nil
}

// stripPod keeps the fields of a pod about its node, requests, constraints and how it may leave.
func stripPod(p *corev1.Pod) {
	s := &p.Status
	p.Status = corev1.PodStatus{
		Phase: s.Phase, StartTime: s.StartTime, NominatedNodeName: s.NominatedNodeName, Conditions: keptConditions(s.Conditions),
		Resources: s.Resources, AllocatedResources: s.AllocatedResources,
		InitContainerStatuses: keptStatuses(s.InitContainerStatuses, p.Spec.InitContainers), ContainerStatuses: keptStatuses(s.ContainerStatuses, p.Spec.Containers),
	}
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			stripContainer(&containers[i])
		}
	}
	p.Spec.EphemeralContainers, p.Spec.HostAliases, p.Spec.DNSConfig, p.Spec.ImagePullSecrets, p.Spec.ReadinessGates = nil, nil, nil, nil, nil
}

// keptConditions returns the conditions that say whether a pod counts as healthy, and with which resources.
func keptConditions(all []corev1.PodCondition) (kept []corev1.PodCondition) {
	for i := range all {
		if c := &all[i]; c.Type == corev1.PodReady || c.Type == corev1.PodResizePending {
			kept = append(kept, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	return kept
}

// keptStatuses returns what the kubelet holds for containers if it differs from what they request: during a resize.
func keptStatuses(all []corev1.ContainerStatus, containers []corev1.Container) (kept []corev1.ContainerStatus) {
	for i := range all {
		s := &all[i]
		at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == s.Name })
		if at < 0 {
			continue
		}
		asks := containers[at].Resources.Requests
		if s.Resources != nil && !equality.Semantic.DeepEqual(s.Resources.Requests, asks) || s.AllocatedResources != nil && !equality.Semantic.DeepEqual(s.AllocatedResources, asks) {
			kept = append(kept, corev1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources})
		}
	}
	return kept
}

func stripContainer(c *corev1.Container) {
	*c = corev1.Container{
		Name: c.Name, Image: c.Image, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy, ResizePolicy: c.ResizePolicy,
		VolumeDevices: c.VolumeDevices,
	}
}
