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
	switch l := list.(type) {
	case *corev1.NodeList:
		l.Items = o.Nodes
	case *corev1.PodList:
		l.Items = o.Pods
	case *policyv1.PodDisruptionBudgetList:
		l.Items = o.Budgets
	case *appsv1.DaemonSetList:
		l.Items = o.Daemons
	case *appsv1.ReplicaSetList:
		l.Items = o.ReplicaSets
	case *batchv1.JobList:
		l.Items = o.Jobs
	case *corev1.ServiceList:
		l.Items = o.Services
	case *corev1.NamespaceList:
		l.Items = o.Namespaces
	case *corev1.PersistentVolumeClaimList:
		l.Items = o.Claims
	case *corev1.PersistentVolumeList:
		l.Items = o.Volumes
	case *storagev1.StorageClassList:
		l.Items = o.Classes
	case *v1alpha1.MigrationList:
	default:
		return fmt.Errorf("list %T: an audit has none", list)
	}
	return nil
}

// Add adds an object of a kind that an audit needs, without the fields that it does not need. It counts objects of
// other kinds and omits pods that have ended.
func (o *Objects) Add(object any) {
	switch x := object.(type) {
	case *corev1.Node:
		o.Nodes = append(o.Nodes, *stripNode(x))
	case *corev1.Pod:
		if !class.Ended(x) {
			if len(o.Pods) == cap(o.Pods) { // append would copy them more often
				o.Pods = slices.Grow(o.Pods, max(1024, len(o.Pods)))
			}
			o.Pods = append(o.Pods, *stripPod(x))
		}
	case *policyv1.PodDisruptionBudget:
		stripMeta(&x.ObjectMeta)
		o.Budgets = append(o.Budgets, *x)
	case *appsv1.DaemonSet:
		stripMeta(&x.ObjectMeta)
		o.Daemons = append(o.Daemons, *x)
	case *appsv1.ReplicaSet:
		stripMeta(&x.ObjectMeta)
		x.Spec.Template = corev1.PodTemplateSpec{}
		o.ReplicaSets = append(o.ReplicaSets, *x)
	case *batchv1.Job:
		stripMeta(&x.ObjectMeta)
		o.Jobs = append(o.Jobs, *x)
	case *corev1.Service:
		stripMeta(&x.ObjectMeta)
		o.Services = append(o.Services, *x)
	case *corev1.Namespace:
		stripMeta(&x.ObjectMeta)
		o.Namespaces = append(o.Namespaces, *x)
	case *corev1.PersistentVolumeClaim:
		stripMeta(&x.ObjectMeta)
		o.Claims = append(o.Claims, *x)
	case *corev1.PersistentVolume:
		stripMeta(&x.ObjectMeta)
		o.Volumes = append(o.Volumes, *x)
	case *storagev1.StorageClass:
		stripMeta(&x.ObjectMeta)
		o.Classes = append(o.Classes, *x)
	case *metricsv1beta1.NodeMetrics:
		o.Metrics = append(o.Metrics, *x)
	case *metav1.PartialObjectMetadata:
		stripMeta(&x.ObjectMeta)
		o.Deployments = append(o.Deployments, *x)
	default:
		o.Others++
	}
}

// lastApplied is the annotation in which kubectl apply stores the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func stripMeta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	delete(m.Annotations, lastApplied)
}

func stripNode(n *corev1.Node) *corev1.Node {
	stripMeta(&n.ObjectMeta)
	n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached, n.Status.Addresses = nil, nil, nil, nil
	return n
}

// stripPod keeps the fields of a pod about its node, requests, constraints and how it may leave. It drops the container
// statuses of a resize in progress, so such pods count with their requests.
func stripPod(p *corev1.Pod) *corev1.Pod {
	stripMeta(&p.ObjectMeta)
	s := &p.Status
	p.Status = corev1.PodStatus{Phase: s.Phase, StartTime: s.StartTime, NominatedNodeName: s.NominatedNodeName}
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			stripContainer(&containers[i])
		}
	}
	p.Spec.EphemeralContainers, p.Spec.HostAliases, p.Spec.DNSConfig, p.Spec.ImagePullSecrets, p.Spec.ReadinessGates = nil, nil, nil, nil, nil
	return p
}

func stripContainer(c *corev1.Container) {
	*c = corev1.Container{
		Name: c.Name, Image: c.Image, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy, ResizePolicy: c.ResizePolicy,
		VolumeDevices: c.VolumeDevices,
	}
}
